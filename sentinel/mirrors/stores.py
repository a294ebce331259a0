"""Where a mirror lies, as little of it as is needed: objects under names with slashes, put whole, read, listed, deleted.

No store needs a rename: what replaces something is put under a new name, and a small record that names it comes last (`record`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple, Protocol

from sentinel.checkpoints.manifest import ListedFile
from sentinel.client.file_digest import SHA256, new_hasher

BLOCK_BYTES = 1 << 20
SMALL_BYTES_MAX = 256 << 20  # of an object that is read whole


class MirrorError(Exception):
    """The mirror's place did not do it: a sentence for a person. The same is tried again later."""


class NotThere(MirrorError):
    """There is no object of that name."""


class RefusedByStore(MirrorError):
    """What lies there is not this run's, or is damaged: trying again changes nothing until a person has looked."""


class Store(Protocol):
    """Every call may wait for a network, and raises MirrorError. Belongs to one thread.

    where: for people.
    """

    @property
    def where(self) -> str: ...

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """An object of these blocks; where it fails, or the process is killed, what the name held before or a part of it."""

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """From `offset` to the end, block by block. Raises NotThere, at the first block."""

    def size(self, name: str) -> int | None:
        """Bytes; None where there is no such object."""

    def names(self, folder: str = "") -> list[str]:
        """Of objects and folders right below, without the folder's own name; empty where there is none."""

    def delete(self, name: str) -> None:
        """An object, or a folder with all that lies below. Nothing where there is none."""


class Digest(NamedTuple):
    """`hex`: by `algorithm`."""

    size: int
    hex: str
    algorithm: str = SHA256


def listed(file: ListedFile) -> Digest:
    """As its checkpoint's manifest says."""
    return Digest(file.size, file.digest.hex, file.digest.algorithm)


def digest_of(blocks: Iterable[bytes], algorithm: str = SHA256) -> Digest:
    found, size = new_hasher(algorithm), 0
    for block in blocks:
        found.update(block)
        size += len(block)
    return Digest(size, found.hexdigest(), algorithm)


def read_small(store: Store, name: str) -> bytes:
    """A whole object. Raises NotThere, MirrorError."""
    blocks, size = [], 0
    for block in store.read(name):
        size += len(block)
        if size > SMALL_BYTES_MAX:
            raise RefusedByStore(
                f"{store.where}/{name}: is larger than {SMALL_BYTES_MAX >> 20} MiB, and nothing that a mirror holds"
            )
        blocks.append(block)
    return b"".join(blocks)


def send(store: Store, name: str, blocks: Iterable[bytes], algorithm: str = SHA256) -> Digest:
    """Put, and read back; what was sent. Raises MirrorError, also where it does not come back as it was sent."""
    hasher, size = new_hasher(algorithm), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        try:
            for block in blocks:
                hasher.update(block)
                size += len(block)
                yield block
        except OSError as error:  # of what is read here: it is no trouble of the mirror's place
            raise MirrorError(f"what is sent as {name} cannot be read: {error}") from error

    store.put(name, counted())
    sent, found = Digest(size, hasher.hexdigest(), algorithm), digest_of(store.read(name), algorithm)
    if sent != found:
        raise MirrorError(f"{store.where}/{name}: came back otherwise than it was sent ({found.size} bytes, {sent.size} sent)")
    return sent


def blocks_of(file: BinaryIO, bytes_max: int | None = None) -> Iterator[bytes]:
    """From where it stands, up to so many bytes."""
    left = bytes_max
    while block := file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
        if left is not None:
            left -= len(block)
        yield block
