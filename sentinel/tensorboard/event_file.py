"""One event file as it grows: where its last whole record ends, which step that holds, and appending behind it.

Derived data: nothing is synced. What a killed writer or a full disk left behind the last whole record is cut off when the file is
opened again. A reader of the file sees whole records and at most one unfinished, which every reader of the format waits for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory, write_fully
from sentinel.client.closed_files import open_closed
from sentinel.client.regular_file import regular
from sentinel.telemetry.event_records import FOOTER, HEADER, crc32c, masked
from sentinel.tensorboard.event_bytes import version_record

BLOCK_BYTES = 1 << 20
RECORD_BYTES_MAX = 1 << 20  # ours are far smaller: a longer one is no record
COPY_BYTES = 1 << 20
SHEET = "events.out.tfevents"  # TensorBoard takes any file with `tfevents` in its name
NO_STEP = -1


def event_name(attempt: int) -> str:
    """The file of an attempt, in its own board and in the stitched one; sorted by name they are in the order of their launch."""
    return f"{SHEET}.{attempt:010d}.sentinel"


@dataclass(slots=True)
class FileEnd:
    """The end of a file's whole records: bytes, and the newest step in them (NO_STEP: none)."""

    size: int = 0
    step: int = NO_STEP


class EventFileWriter:
    """A file that only this process writes. Raises OSError; open it again then."""

    def __init__(self, path: Path, known: FileEnd) -> None:
        """Find the end of the whole records, from `known` on where the file is at least so long, and cut off what follows."""
        ensure_directory(path.parent)
        self._handle = open_closed(path, os.O_RDWR)
        size = os.fstat(self._handle).st_size
        self.place = FileEnd(known.size, known.step) if known.size <= size else FileEnd()
        for end, step in records(self._handle, self.place.size, is_checked=True):
            self.place.size, self.place.step = end, max(step, self.place.step)
        if size > self.place.size:
            os.ftruncate(self._handle, self.place.size)

    def append(self, data: bytes, step: int, time_s: float) -> None:
        """Whole records up to `step`; before the first the file's version, as of `time_s`."""
        if self.place.size == 0:
            data = version_record(time_s) + data
        os.lseek(self._handle, self.place.size, os.SEEK_SET)
        write_fully(self._handle, data)
        self.place.size += len(data)
        self.place.step = step

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def records(handle: int, start: int, *, is_checked: bool = False) -> Iterator[tuple[int, int]]:
    """The whole records from byte `start` on: where each ends, and its step (NO_STEP: it tells none). Ends where the file does,
    or where something else than a record stands. `is_checked`: by the messages' checksums too, not only by the lengths'."""
    lengths: dict[int, int] = {}
    block, base, place = os.pread(handle, BLOCK_BYTES, start), start, 0
    while True:
        size, check = HEADER.unpack_from(block, place) if place + HEADER.size <= len(block) else (0, -1)
        if check < 0 or place + size + 16 > len(block):
            if size > RECORD_BYTES_MAX:
                return
            base, place = base + place, 0
            fresh = os.pread(handle, BLOCK_BYTES + RECORD_BYTES_MAX, base)
            if len(fresh) < HEADER.size or len(fresh) < HEADER.unpack_from(fresh)[0] + 16:
                return
            block = fresh
            continue
        if lengths.get(size) != check:
            if masked(crc32c(block[place : place + 8])) != check:
                return
            lengths[size] = check
        message = block[place + 12 : place + 12 + size]
        if is_checked and masked(crc32c(message)) != FOOTER.unpack_from(block, place + 12 + size)[0]:
            return
        place += size + 16
        yield base + place, _step(message)


def end_at(path: Path, bound: int) -> int:
    """How many bytes of the file hold nothing above step `bound`; 0 when no step at or below it stands there."""
    found = 0
    with _reading(path) as handle:
        for end, step in records(handle, 0):
            if step > bound:
                break
            if step != NO_STEP:
                found = end
    return found


def first_step(path: Path) -> int | None:
    """The first step in the file; None when there is none, or no file."""
    try:
        with _reading(path) as handle:
            return next((step for _, step in records(handle, 0) if step != NO_STEP), None)
    except FileNotFoundError:
        return None


def copy_prefix(source: Path, target: Path, size: int) -> None:
    """Make `target` the first `size` bytes of `source`, of which it is taken to be a beginning already."""
    ensure_directory(target.parent)
    out = open_closed(target, os.O_RDWR)
    try:
        there = os.fstat(out).st_size
        if there > size:
            os.ftruncate(out, size)
        with _reading(source) as handle:
            while there < size:
                data = os.pread(handle, min(COPY_BYTES, size - there), there)
                if not data:
                    return  # it became shorter under our hands: seen at the next look
                os.lseek(out, there, os.SEEK_SET)
                write_fully(out, data)
                there += len(data)
    finally:
        os.close(out)


def is_beginning(path: Path, whole: Path, tail_bytes: int = 4096) -> bool:
    """Whether `path` ends as `whole` does at that place: what is checked before more of it is copied behind."""
    with _reading(path) as a, _reading(whole) as b:
        size = os.fstat(a).st_size
        start = max(0, size - tail_bytes)
        return os.pread(a, size - start, start) == os.pread(b, size - start, start)


def size_of(path: Path) -> int:
    """0 when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _reading(path: Path) -> Iterator[int]:
    handle = regular(os.fspath(path), os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _step(message: bytes) -> int:
    """Ours put the step behind the time; the version record has none."""
    if len(message) < 12 or message[9] != 0x10:
        return NO_STEP
    value = shift = 0
    for byte in message[10:20]:
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
    return NO_STEP
