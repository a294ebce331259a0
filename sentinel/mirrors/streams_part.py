"""The files of a run directory on the mirror: streams, logs, exit records, evidence, reports, run.json; all but journal,
checkpoints and what means something on this machine alone.

One push writes what is new of all files behind one another into one object, a *bundle*, and then the list of files: for each the
stretches of bundles that it is made of, with their digests. What only grows is sent from where it ended; what was rewritten, cut
or is no such file is sent anew. A small number of large objects is what an object store wants, and thousands of ranks have
thousands of small files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import (
    ANSWERING_NAME,
    CHECKPOINTS,
    INBOX,
    JOURNAL_NAME,
    LEASE_NAME,
    LOCK_NAME,
    LOST_NAME,
    STANDINGS_NAME,
    TENSORBOARD,
)
from sentinel.mirrors.record import MirrorRecord, StreamsThere
from sentinel.mirrors.stores import BLOCK_BYTES, Digest, MirrorError, Store, blocks_of, digest_of, send
from sentinel.mirrors.stretches import FOLDER, BundleStretch, Files, FileThere, find_damaged, read_list, send_list

FILES_MAX = 200_000
WHOLE_BYTES_MAX = 64 << 20  # of a file that does not only grow; a larger one is left out, and told
BUNDLE_BYTES = 256 << 20
STRETCHES_MAX = 16  # of a file; then it is sent anew, in one
BUNDLES_MAX = 128  # then everything is sent anew

# Of the run directory's own folder: what has a part of its own, is made anew, or belongs to the processes of this machine.
NOT_FILES = {
    JOURNAL_NAME, f"{JOURNAL_NAME}-wal", f"{JOURNAL_NAME}-shm", f"{JOURNAL_NAME}-journal", LEASE_NAME, LOCK_NAME,
    LOST_NAME, ANSWERING_NAME, STANDINGS_NAME,
}  # fmt: skip
NOT_FOLDERS = {CHECKPOINTS, TENSORBOARD, INBOX, "quarantine", "mirror"}
_NOT_ANYWHERE = re.compile(r"\..*|.*\.(?:lock|tmp|part|sock|pid)|keeper\.json|journal\.head|heartbeats|journal-damaged-\d+")
_NUMBERED = re.compile(r"(?:list-)?(\d{8,12})\.(?:bin|json)")
_GROWS = re.compile(r".*\.jsonl|(?:.*/)?logs/[^/]*")


def is_left_out(path: PurePosixPath) -> bool:
    """Whether a file of the run directory has no place in the list of files: nothing is sent under such a name, nor fetched."""
    return path.parts[0] in NOT_FILES | NOT_FOLDERS or any(map(_NOT_ANYWHERE.fullmatch, path.parts))


Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Bundle:
    """One that is being written. `files`: the list with what it adds. `is_full`: more is to be sent in another."""

    name: str
    files: Files
    size: int = 0
    is_full: bool = False
    left_out: list[str] = field(default_factory=list)
    stamps: dict[str, Stamp] = field(default_factory=dict)


class StreamsPart:
    """Pushes what is new. What was the same the last time, by size and time, is not read again in this process."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._stamps: dict[str, Stamp] = {}
        self._checked = False
        self.left_out: tuple[str, ...] = ()

    def push(self, store: Store, record: MirrorRecord, wall_s: float) -> Iterator[StreamsThere]:
        """The list that is there after each bundle; the last one is complete. Raises MirrorError."""
        files = self._files_there(store, record)
        bundles = {one.bundle for file in files.values() for one in file.stretches}
        if len(bundles) > BUNDLES_MAX + _needed(sum(one.size for one in files.values())):
            files = {}
            self._stamps = {}
        number = _next_number(store)
        while True:
            bundle = Bundle(f"{FOLDER}/{number:08d}.bin", dict(files))
            found = self._found()
            bundle.files = {name: one for name, one in bundle.files.items() if name in found}
            blocks = _primed(self._new(bundle, files, found))
            if blocks is not None:
                send(store, bundle.name, blocks)
            self.left_out = tuple(bundle.left_out)
            there = record.streams
            if bundle.files != files or there is None or store.size(there.name) is None:
                there = send_list(store, number, bundle.files, wall_s)
            self._stamps |= bundle.stamps
            yield there if bundle.is_full else _as_of(there, wall_s)
            files, number = bundle.files, number + 1
            if not bundle.is_full:
                return

    def _files_there(self, store: Store, record: MirrorRecord) -> Files:
        """The list of the record; bundles that are damaged or gone count for nothing. Each is looked at once in this process."""
        files = read_list(store, record.streams) if record.streams is not None else {}
        if files is None:
            files = {}
        if not self._checked:
            damaged = find_damaged(store, files)
            files = {name: one for name, one in files.items() if not any(part.bundle in damaged for part in one.stretches)}
            self._checked = True
        return files

    def _found(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder, folders, names in os.walk(self._run_dir):
            here = os.path.relpath(folder, self._run_dir)
            is_top = here == "."
            folders[:] = sorted(n for n in folders if not _NOT_ANYWHERE.fullmatch(n) and not (is_top and n in NOT_FOLDERS))
            for name in sorted(names):
                if _NOT_ANYWHERE.fullmatch(name) or (is_top and name in NOT_FILES):
                    continue
                found[name if is_top else f"{here}/{name}"] = Path(folder, name)
                if len(found) > FILES_MAX:
                    raise MirrorError(f"{self._run_dir}: holds more than {FILES_MAX} files; what is it that writes them?")
        return found

    def _new(self, bundle: Bundle, files: Files, found: dict[str, Path]) -> Iterator[bytes]:
        """The blocks of the bundle; the list of files grows with them."""
        for name, path in found.items():
            if bundle.size >= BUNDLE_BYTES:
                bundle.is_full = True
                return
            try:
                if path.is_symlink():
                    continue
                status = path.stat()
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
                if self._stamps.get(name) == stamp and name in files:
                    continue
                with open(path, "rb", opener=regular) as file:
                    yield from self._of_file(bundle, name, file, files.get(name, FileThere()), status.st_size)
                if bundle.files.get(name, FileThere()).size >= status.st_size:
                    bundle.stamps[name] = stamp
            except OSError:
                continue  # gone by now, or no file; what cannot be read is sent when it can be

    def _of_file(self, bundle: Bundle, name: str, file: BinaryIO, there: FileThere, size: int) -> Iterator[bytes]:
        grows = _GROWS.fullmatch(name) is not None
        if not grows and size > WHOLE_BYTES_MAX:
            bundle.files.pop(name, None)
            bundle.left_out.append(name)
            return
        is_beginning = len(there.stretches) < STRETCHES_MAX + _needed(there.size) and all(
            digest_of(blocks_of(file, one.size)) == Digest(one.size, one.sha256) for one in there.stretches
        )
        if is_beginning and there.size == size and name in bundle.files:
            return
        if not is_beginning or (not grows and there.size != size):
            there = FileThere()
            file.seek(0)
        left = size - there.size
        limit = min(left, BUNDLE_BYTES) if grows else left
        if name.endswith(".jsonl"):
            limit = _whole_lines(file, there.size, limit)
        sha256, offset, taken = hashlib.sha256(), bundle.size, 0
        for block in blocks_of(file, limit):
            sha256.update(block)
            taken += len(block)
            bundle.size += len(block)
            yield block
        more = (BundleStretch(bundle.name, offset, taken, sha256.hexdigest()),) if taken else ()
        bundle.files[name] = FileThere((*there.stretches, *more))
        bundle.is_full = bundle.is_full or left > BUNDLE_BYTES


def _needed(size: int) -> int:
    """So many parts may be full ones: what is large is not sent anew for being large."""
    return 2 * (size // BUNDLE_BYTES)


def _whole_lines(file: BinaryIO, start: int, limit: int) -> int:
    """How many bytes from `start` on, at most `limit`, end with a line; the file stands at `start` again. All of them where the
    last line is longer than a block: then it is no stream of lines."""
    tail = max(start, start + limit - BLOCK_BYTES)
    file.seek(tail)
    text = file.read(start + limit - tail)
    file.seek(start)
    end = text.rfind(b"\n")
    return limit if end < 0 and limit >= BLOCK_BYTES else tail - start + end + 1


def _primed(blocks: Iterator[bytes]) -> Iterator[bytes] | None:
    """None where there is no block: no object is made of nothing."""
    first = next(blocks, None)
    if first is None:
        return None

    def again() -> Iterator[bytes]:
        yield first
        yield from blocks

    return again()


def _next_number(store: Store) -> int:
    return max((int(match[1]) for name in store.names(FOLDER) if (match := _NUMBERED.fullmatch(name))), default=0) + 1


def _as_of(there: StreamsThere, wall_s: float) -> StreamsThere:
    return StreamsThere(there.name, there.size, there.sha256, there.files, there.bytes, wall_s)


def drop_old_streams(store: Store, kept: tuple[MirrorRecord, ...], lists: tuple[Files, ...]) -> None:
    """Bundles and lists that no kept record needs. `lists`: of those records. Raises MirrorError."""
    named = {one.streams.name for one in kept if one.streams is not None}
    named |= {part.bundle for files in lists for file in files.values() for part in file.stretches}
    for name in store.names(FOLDER):
        if f"{FOLDER}/{name}" not in named:
            store.delete(f"{FOLDER}/{name}")

