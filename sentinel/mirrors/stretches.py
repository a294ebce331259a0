"""The list of files of a mirror, and what it is made of: stretches of bundles, each with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sentinel.client.strict_json import dumps, loads
from sentinel.mirrors.record import StreamsThere
from sentinel.mirrors.stores import Digest, NotThere, RefusedByStore, Store, digest_of, read_small, send

FOLDER = "streams"
VERSION = 1


class BundleStretch(NamedTuple):
    """A part of a bundle."""

    bundle: str
    offset: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FileThere:
    """A file as the mirror has it, from its first byte on."""

    stretches: tuple[BundleStretch, ...] = ()

    @property
    def size(self) -> int:
        return sum(one.size for one in self.stretches)


Files = dict[str, FileThere]


def send_list(store: Store, number: int, files: Files, wall_s: float) -> StreamsThere:
    name = f"{FOLDER}/list-{number:08d}.json"
    document = {"v": VERSION, "files": {path: [list(part) for part in one.stretches] for path, one in files.items()}}
    sent = send(store, name, [dumps(document).encode()])
    return StreamsThere(name, sent.size, sent.hex, len(files), sum(one.size for one in files.values()), wall_s)


def read_list(store: Store, there: StreamsThere) -> Files | None:
    """The list of files; None where it is gone or damaged. Raises MirrorError."""
    try:
        data = read_small(store, there.name)
        if digest_of([data]) != Digest(there.size, there.sha256):
            return None
        plain = loads(data)
        if plain["v"] != VERSION:
            raise RefusedByStore(f"{store.where}/{there.name}: was written by another version of sentinel")
        return {name: FileThere(tuple(map(_stretch, parts))) for name, parts in plain["files"].items()}
    except (NotThere, ValueError, KeyError, TypeError, AttributeError):
        return None


def _stretch(part: list[object]) -> BundleStretch:
    """Raises ValueError, TypeError for what no list of ours holds."""
    bundle, offset, size, sha256 = part
    if not (isinstance(bundle, str) and isinstance(sha256, str) and type(offset) is int and type(size) is int):
        raise TypeError(f"{part!r:.80} is no stretch")
    if offset < 0 or size < 0:
        raise ValueError(f"{part!r:.80} is no stretch")
    return BundleStretch(bundle, offset, size, sha256)


def find_damaged(store: Store, files: Files) -> set[str]:
    """Bundles of which a stretch that is in use cannot be read as it was sent. Reads all of them. Raises MirrorError."""
    parts: dict[str, list[BundleStretch]] = {}
    for file in files.values():
        for one in file.stretches:
            parts.setdefault(one.bundle, []).append(one)
    return {name for name, stretches in parts.items() if not all(ok for _, ok, _ in read_stretches(store, name, stretches))}


def read_stretches(store: Store, bundle: str, stretches: list[BundleStretch]) -> Iterator[tuple[BundleStretch, bool, bytes]]:
    """Each with whether it is as it was sent, and its bytes; in the order in which they lie there. Raises MirrorError."""
    reader = _BundleReader(store, bundle)
    for one in sorted(stretches, key=lambda part: part.offset):
        data = reader.take(one.offset, one.size)
        yield one, Digest(len(data), hashlib.sha256(data).hexdigest()) == Digest(one.size, one.sha256), data


class _BundleReader:
    """One object, read forwards once."""

    def __init__(self, store: Store, name: str) -> None:
        self._blocks = store.read(name)
        self._at, self._rest = 0, b""

    def take(self, offset: int, size: int) -> bytes:
        """What is there of it: less where the object ends before, or is gone."""
        parts: list[bytes] = []
        wanted = size
        while wanted:
            end = self._at + len(self._rest)
            if offset < self._at:
                break  # no list of ours: stretches do not lie over one another
            if offset < end:
                piece = self._rest[offset - self._at : offset - self._at + wanted]
                parts.append(piece)
                offset, wanted = offset + len(piece), wanted - len(piece)
                continue
            self._at = end
            try:
                self._rest = next(self._blocks, b"")
            except NotThere:
                self._rest = b""
            if not self._rest:
                break
        return b"".join(parts)


