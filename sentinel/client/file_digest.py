"""The digest of a file, by the algorithm that its manifest names. Standard library only.

    sha256         of all bytes, in one go
    sha256_tree    of the sha256 of each RANGE_BYTES of the file, one behind the other

Both are as strong as SHA-256: nobody can make another file of the same size and digest. The ranges of the second can be read in
any order and by any number of threads, processes and machines at once; the first is as fast as one core.

    digest_of(path, TREE)
    tree_of([range_digest(data) for data in ranges])
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from sentinel.client.regular_file import regular

RANGE_BYTES = 16 << 20
SHA256, TREE = "sha256", "sha256_tree"
ALGORITHMS = (SHA256, TREE)  # what is read here, the best one last
BLOCK_BYTES = 1 << 20


class FileDigest(NamedTuple):
    """`hex` is in lower case."""

    algorithm: str
    hex: str

    @property
    def text(self) -> str:
        """Of a plain sha256 the digest alone, as memories of before there was another have it."""
        return self.hex if self.algorithm == SHA256 else f"{self.algorithm}:{self.hex}"


class Hasher(Protocol):
    """As those of hashlib."""

    def update(self, data: bytes, /) -> None:
        """The next bytes."""

    def hexdigest(self) -> str:
        """Of all bytes so far."""


class TreeHasher:
    """`sha256_tree` of bytes that come one after the other."""

    def __init__(self) -> None:
        self._whole, self._range, self._left = hashlib.sha256(), hashlib.sha256(), RANGE_BYTES

    def update(self, data: bytes, /) -> None:
        view = memoryview(data)
        while len(view):
            part, view = view[: self._left], view[self._left :]
            self._range.update(part)
            self._left -= len(part)
            if not self._left:
                self._whole.update(self._range.digest())
                self._range, self._left = hashlib.sha256(), RANGE_BYTES

    def hexdigest(self) -> str:
        whole = self._whole.copy()
        if self._left < RANGE_BYTES:
            whole.update(self._range.digest())
        return whole.hexdigest()


def new_hasher(algorithm: str) -> Hasher:
    assert algorithm in ALGORITHMS, f"{algorithm}: `listed_digest` lets no other one pass"
    return TreeHasher() if algorithm == TREE else hashlib.sha256()


def digest_of(path: Path, algorithm: str = SHA256) -> str:
    """Of a file, read in pieces. Raises OSError."""
    hasher = new_hasher(algorithm)
    with open(path, "rb", opener=regular) as file:
        while block := file.read(BLOCK_BYTES):
            hasher.update(block)
    return hasher.hexdigest()


def count_ranges(size: int) -> int:
    return -(-size // RANGE_BYTES)


def tree_of(ranges: Iterable[bytes]) -> str:
    """`sha256_tree` from the sha256 of each range, in their order."""
    return hashlib.sha256(b"".join(ranges)).hexdigest()


def listed_digest(entry: Mapping[str, object]) -> FileDigest | None:
    """What a manifest's entry says of its file: the best of the algorithms that are known here; None where there is none."""
    for algorithm in reversed(ALGORITHMS):
        if isinstance(value := entry.get(algorithm), str):
            return FileDigest(algorithm, value.lower())
    return None


def best_of(read: Sequence[str]) -> str:
    """What to write for a reader who knows these algorithms; whoever says nothing knows the oldest."""
    return next((one for one in reversed(ALGORITHMS) if one in read), SHA256)
