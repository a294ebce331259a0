"""A zip archive as torch writes it, by its central directory. The archive may be a part of a file: torch.distributed.checkpoint
puts one after the other.

torch never compresses an entry, and an entry that is compressed is not read: no small file unpacks to a large one. Python's
`zipfile` would read a directory of any size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from sentinel.checkpoints.tensors.stretches import UncountableNumbers

MAGIC = b"PK\x03\x04"
DIRECTORY_BYTES_MAX = 64 << 20
END = b"PK\x05\x06"
END_BYTES, COMMENT_BYTES_MAX = 22, 65_535
_FULL = 0xFFFFFFFF  # in a field of 32 bits: it stands in the extra field, in 64


@dataclass(frozen=True, slots=True)
class ArchiveWindow:
    """An archive within a file."""

    file: BinaryIO
    start: int
    end: int

    def read(self, offset: int, count: int) -> bytes:
        """Raises UncountableNumbers where so much is not there."""
        if offset < 0 or count < 0 or self.start + offset + count > self.end:
            raise UncountableNumbers("its archive points outside itself")
        self.file.seek(self.start + offset)
        data = self.file.read(count)
        if len(data) != count:
            raise UncountableNumbers("it breaks off")
        return data


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """`start` is its first byte in the file."""

    start: int
    size: int


def read_entry(window: ArchiveWindow, entry: ArchiveEntry, most: int) -> bytes:
    if entry.size > most:
        raise UncountableNumbers(f"an entry of its archive has {entry.size:,} bytes where at most {most:,} were expected")
    return window.read(entry.start - window.start, entry.size)


def read_entries(window: ArchiveWindow) -> dict[str, ArchiveEntry]:
    """By the central directory. Raises UncountableNumbers for what torch does not write."""
    size = window.end - window.start
    tail = window.read(max(0, size - END_BYTES), min(size, END_BYTES))  # torch writes no comment behind it
    if not tail.startswith(END):
        tail = window.read(max(0, size - END_BYTES - COMMENT_BYTES_MAX), min(size, END_BYTES + COMMENT_BYTES_MAX))
    found = tail.rfind(END)
    if found < 0 or len(tail) - found < END_BYTES:
        raise UncountableNumbers("its archive has no directory: it may be cut off")
    count, length, offset = struct.unpack_from("<10xHII", tail, found)
    at = size - len(tail) + found
    if _FULL in (length, offset) or count == 0xFFFF:
        locator = window.read(at - 20, 20)
        (end_at,) = struct.unpack_from("<8xQ", locator)
        count, length, offset = struct.unpack_from("<32xQQQ", window.read(end_at, 56))
    if length > DIRECTORY_BYTES_MAX:
        raise UncountableNumbers(f"the directory of its archive has {length:,} bytes")
    directory, at, entries = window.read(offset, length), 0, dict[str, ArchiveEntry]()
    while at < length:
        name, entry, at = _entry(window, directory, at)
        entries[name] = entry
    if len(entries) != count:
        raise UncountableNumbers(f"its archive has {len(entries):,} entries and says {count:,}")
    return entries


def _entry(window: ArchiveWindow, directory: bytes, at: int) -> tuple[str, ArchiveEntry, int]:
    try:
        mark, flags, method, packed, size, *lengths, offset = struct.unpack_from("<4s4xHH8xIIHHH8xI", directory, at)
    except struct.error:
        raise UncountableNumbers("the directory of its archive breaks off") from None
    name_bytes, extra_bytes, comment_bytes = lengths
    name = directory[at + 46 : at + 46 + name_bytes].decode("utf-8", "replace")
    extra = directory[at + 46 + name_bytes : at + 46 + name_bytes + extra_bytes]
    wide = iter(_wide(extra))
    size, packed, offset = (next(wide, _FULL) if value == _FULL else value for value in (size, packed, offset))
    if mark != b"PK\x01\x02" or flags & 1 or method != 0 or packed != size:
        raise UncountableNumbers("an entry of its archive is compressed, encrypted or damaged")
    head = window.read(offset, 30)
    own_name, own_extra = struct.unpack_from("<26xHH", head)
    start = offset + 30 + own_name + own_extra
    if head[:4] != MAGIC or window.start + start + size > window.end:
        raise UncountableNumbers("an entry of its archive lies outside it")
    return name, ArchiveEntry(window.start + start, size), at + 46 + name_bytes + extra_bytes + comment_bytes


def _wide(extra: bytes) -> tuple[int, ...]:
    """The numbers of 64 bits in the extra field of an entry (APPNOTE 4.5.3)."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            whole = extra[at + 4 : at + 4 + length]
            return tuple(int.from_bytes(whole[i : i + 8], "little") for i in range(0, len(whole) - 7, 8))
        at += 4 + length
    return ()
