"""Follows a file that only grows: whole lines once each, in order, through replacement, truncation, absence and garbage.

A last line without its newline waits. A file that was replaced is read to its end before its successor is opened; one that
shrank or was rewritten in place is read again from its start. A line longer than BLOCK_BYTES is given back cut short and marked
with a NUL, so that no reader takes it for whole. It knows nothing about what the lines mean.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from sentinel.model.readings import SourceReading
from sentinel.telemetry.source import SourceHealth

BLOCKS_PER_READ = 8
BLOCK_BYTES = 1 << 20
TAIL_BYTES = 32  # remembered of what was read last, to notice a file rewritten in place
EXCERPT_BYTES = 60
MISSING_GRACE_S = 2.0  # a rotation may leave the name free for a moment

Identity = tuple[int, int]


class TailedFile:
    """What the last read left behind: `has_more` when it stopped at its bound, `remarks` about the file itself, and the
    `trouble` that ended it early. `is_there` turns False when a file that was there is gone for longer than a rotation takes."""

    def __init__(self, path: Path, health: SourceHealth, *, from_end: bool = False, returns: bool = False) -> None:
        """`from_end`: what stands there at the first look is passed over. `returns`: a carriage return ends a line as well, as
        progress bars are written; behind it may stand an empty line."""
        self.path = path
        self.has_more = False
        self.is_there = True
        self.remarks: list[SourceReading] = []
        self.trouble: OSError | None = None
        self._health = health
        self._from_end = from_end
        self._returns = returns
        self._handle: int | None = None
        self._identity: Identity | None = None
        self._offset = 0
        self._tail = b""
        self._skipping = False  # inside a line that is too long
        self._missing_since_s: float | None = None

    def read_lines(self, now_s: float, limit: int) -> list[bytes]:
        """The next whole lines without their newlines, at most `limit`. Never raises."""
        self.has_more = False
        self.remarks, self.trouble = [], None
        lines: list[bytes] = []
        try:
            if not self._is_open(now_s):
                return lines
            self._read_blocks(lines, limit)
            if not self.has_more and self._was_replaced(now_s):
                lines += self._rest()
                self._forget_file()
                if self._is_open(now_s):
                    self._read_blocks(lines, limit)
        except OSError as error:
            self.close()
            self.has_more, self.trouble = False, error
        finally:
            self._from_end = False
        return lines

    def read_rest(self) -> list[bytes]:
        """What stands behind the last newline, for a file that nobody writes any more. Never raises."""
        self.remarks, self.trouble = [], None
        try:
            return [] if self._handle is None else self._rest()
        except OSError as error:
            self.trouble = error
            return []

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def close(self) -> None:
        """Close the file but remember the place; the next read opens it anew and goes on there."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    # -- which file ----------------------------------------------------------------------------------------------------

    def _is_open(self, now_s: float) -> bool:
        """Open the file unless it is open. False while there is none."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self._note_missing(now_s)
            return False
        self._handle = handle
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file", str(self.path))
        self._note_there()
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity:
            self._rewind()
            self._offset = status.st_size if self._from_end else 0
            self._identity = identity
        return True

    def _was_replaced(self, now_s: float) -> bool:
        """True when another file now stands under the name; the one that is open has been read to its end."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._note_missing(now_s)
            return False
        self._note_there()
        return (status.st_dev, status.st_ino) != self._identity

    def _note_missing(self, now_s: float) -> None:
        if self._identity is None:
            return  # it has never been there: the attempt is still starting
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        elif now_s - self._missing_since_s >= MISSING_GRACE_S:
            self.is_there = False

    def _note_there(self) -> None:
        self._missing_since_s = None
        self.is_there = True

    def _forget_file(self) -> None:
        self.close()
        self._identity = None
        self._rewind()

    def _rewind(self) -> None:
        self._offset = 0
        self._tail = b""
        self._skipping = False

    # -- which lines ---------------------------------------------------------------------------------------------------

    def _read_blocks(self, lines: list[bytes], limit: int) -> None:
        """Add whole lines until the end of the file or a bound; says which in `has_more`."""
        for _ in range(BLOCKS_PER_READ):
            budget = limit - len(lines)
            block = self._next_block()
            text = split_at_returns(block) if self._returns else block
            end = text.rfind(b"\n")
            is_full = len(block) == BLOCK_BYTES
            if end < 0:
                self._take_endless(block, is_full, lines)
                self.has_more = is_full
                return
            if budget <= 0:
                break
            found = text[:end].split(b"\n", budget)
            unread = len(found.pop()) + 1 if len(found) > budget else 0
            self._consume(block, end + 1 - unread)
            if self._skipping:
                self._skipping = False
                del found[0]
            lines += found
            if not unread and not is_full:
                return
        self.has_more = True

    def _next_block(self) -> bytes:
        """What stands after the last line taken, at most BLOCK_BYTES; notices a file that is not the one read so far."""
        assert self._handle is not None, "a block is read from an open file"
        size = os.fstat(self._handle).st_size
        if size == self._offset:
            return b""
        if size > self._offset:
            known = len(self._tail)
            new_bytes = min(size - self._offset, BLOCK_BYTES)  # room for a whole block would be paid for with every line
            block = os.pread(self._handle, new_bytes + known, self._offset - known)
            if block.startswith(self._tail):
                return block[known:]
            self.remarks += self._health.remark(f"{self.path}: rewritten in place; reading it again from its start")
        else:
            self.remarks += self._health.remark(f"{self.path}: cut to {size} bytes; reading it again from its start")
        self._rewind()
        return os.pread(self._handle, min(size, BLOCK_BYTES), 0)

    def _consume(self, block: bytes, count: int) -> None:
        self._offset += count
        self._tail = (self._tail + block[max(0, count - TAIL_BYTES) : count])[-TAIL_BYTES:]

    def _take_endless(self, block: bytes, is_full: bool, lines: list[bytes]) -> None:
        """A block without a newline: the start of a line still being written, unless it is longer than any line may be."""
        if is_full and not self._skipping:
            self._skipping = True
            lines.append(block[:EXCERPT_BYTES] + b"\0")
        if self._skipping:
            self._consume(block, len(block))
            self._pass_hole()

    def _pass_hole(self) -> None:
        """Over a hole of a sparse file in one step: at a block a turn a terabyte of nothing would hold up what is behind it."""
        assert self._handle is not None, "a block was read from it"
        try:
            data = os.lseek(self._handle, self._offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return  # a filesystem that knows of no holes
            data = os.fstat(self._handle).st_size  # nothing but a hole to the end
        self._tail = (self._tail + bytes(min(max(0, data - self._offset), TAIL_BYTES)))[-TAIL_BYTES:]
        self._offset = max(self._offset, data)

    def _rest(self) -> list[bytes]:
        block = self._next_block()
        self._consume(block, len(block))
        lines = (split_at_returns(block) if self._returns else block).split(b"\n")
        return lines[1:] if self._skipping else lines


def split_at_returns(block: bytes) -> bytes:
    """The block, as long as before, with a newline for every carriage return that is not the end of a line of Windows."""
    if b"\r" not in block or block.count(b"\r") == block.count(b"\r\n"):
        return block
    return block.replace(b"\r", b"\n")
