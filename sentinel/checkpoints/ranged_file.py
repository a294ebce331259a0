"""A file whose digest is a tree, read range by range by as many threads as have time.

ranges = SharedRanges()
ranges.read(RangedFile(handle, size, count, remembers=True), progressed)      # by the thread that has the file
ranges.help(progressed, is_over)                                              # by threads that have none left
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable

from sentinel.checkpoints.tensors.ranged import RangedCount
from sentinel.checkpoints.tensors.stretches import Count
from sentinel.client.file_digest import BLOCK_BYTES, RANGE_BYTES, count_ranges, tree_of

WAIT_S = 0.5


class RangedFile:
    """`handle` is open until `finish` has returned. `count`: of its values, where they are counted. `remembers`: the CRC of each
    range is wanted too."""

    def __init__(self, handle: int, size: int, count: Count | None, remembers: bool) -> None:
        self._handle, self._size, self._remembers = handle, size, remembers
        self._counts = None if count is None else RangedCount(count, RANGE_BYTES)
        self._number = count_ranges(size)
        self._digests, self._crcs = [b""] * self._number, [0] * self._number
        self._next = self._done = 0
        self._error: BaseException | None = None
        self._change = threading.Condition()

    @property
    def has_left(self) -> bool:
        """Whether a range is left that nobody reads yet."""
        return self._next < self._number and self._error is None

    def read_next(self, progressed: Callable[[], None]) -> bool:
        """Read a range that nobody reads yet; False where there is none. What goes wrong is raised by `finish`."""
        with self._change:
            if not self.has_left:
                return False
            number = self._next
            self._next += 1
        try:
            self._read(number, progressed)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that has the file
            self._error = error
        with self._change:
            self._done += 1
            self._change.notify_all()
        return True

    def _read(self, number: int, progressed: Callable[[], None]) -> None:
        offset, end = number * RANGE_BYTES, min((number + 1) * RANGE_BYTES, self._size)
        part = self._counts.begin(number) if self._counts is not None else None
        if part is not None and self._counts is not None and (lead := self._counts.lead(number)):
            part.feed(offset - lead, os.pread(self._handle, lead, offset - lead))
        digest, crc = hashlib.sha256(), 0
        while offset < end and (block := os.pread(self._handle, min(BLOCK_BYTES, end - offset), offset)):
            progressed()
            digest.update(block)
            if self._remembers:
                crc = zlib.crc32(block, crc)
            if part is not None:
                part.feed(offset, block)
            offset += len(block)
        self._digests[number], self._crcs[number] = digest.digest(), crc
        if part is not None and self._counts is not None:
            self._counts.take(number, part)

    def finish(self) -> tuple[str, Count | None, tuple[int, ...]]:
        """Wait for those who read: digest, count, and the CRC of each range. Raises what went wrong."""
        with self._change:
            while self._done < self._next:
                self._change.wait(WAIT_S)
        if self._error is not None:
            raise self._error
        count = self._counts.whole() if self._counts is not None else None
        return tree_of(self._digests), count, tuple(self._crcs) if self._remembers else ()


class SharedRanges:
    """The files that are being read range by range. A thread says with `begin` that it has a file, and with `end` that it is
    done with it: until then one more may come."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._open: list[RangedFile] = []
        self._busy = 0

    def begin(self) -> None:
        with self._change:
            self._busy += 1

    def end(self) -> None:
        with self._change:
            self._busy -= 1
            self._change.notify_all()

    def read(self, file: RangedFile, progressed: Callable[[], None]) -> tuple[str, Count | None, tuple[int, ...]]:
        """As `RangedFile.finish`."""
        with self._change:
            self._open.append(file)
            self._change.notify_all()
        try:
            while file.read_next(progressed):
                pass
            return file.finish()
        finally:
            with self._change:
                self._open.remove(file)

    def help(self, progressed: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Read ranges of others' files until no thread has a file any more."""
        while not is_over():
            with self._change:
                file = next((one for one in self._open if one.has_left), None)
                if file is None:
                    if not self._busy:
                        return
                    self._change.wait(WAIT_S)
                    continue
            while file.read_next(progressed):
                pass
