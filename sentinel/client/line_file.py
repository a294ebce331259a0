"""A file of lines that outlives a full disk: what cannot be written is counted, and told when there is room again.

    file = LineFile(Path("lines.jsonl"))
    file.append({"kind": "step", "step": 7}, step=7)              # lost where the disk is full
    file.append({"kind": "event"}, step=7, waits=True)            # kept until there is room

Every line tries anew. The first that finds room comes behind a line that tells how many were lost (`lines_lost` of PROTOCOL.md),
and behind those that were kept. A line that was torn in the middle is closed with a newline, so that it swallows nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory, write_fully
from sentinel.client.closed_files import open_closed
from sentinel.client.disk_trouble import errno_name, in_words, is_of_disk
from sentinel.client.strict_json import dumps

KEPT_MAX = 64  # lines that wait for room: a receipt, answers to live changes, saves. More of them are lost, and counted


@dataclass(frozen=True)
class _Line:
    data: bytes
    step: int | None
    is_step: bool
    waits: bool


@dataclass
class Hole:
    """Lines that were lost and not told of yet. `first_s`, `last_s`: wall time."""

    error: OSError
    lines: int = 0
    steps: int = 0  # of them step lines
    first_step: int | None = None
    last_step: int | None = None
    first_s: float = 0.0
    last_s: float = 0.0

    def take(self, line: _Line) -> None:
        """One more."""
        now_s = time.time()
        self.first_s = self.first_s if self.lines else now_s
        self.last_s = now_s
        self.lines += 1
        if line.is_step and line.step is not None:
            self.steps += 1
            self.first_step = line.step if self.first_step is None else min(self.first_step, line.step)
            self.last_step = line.step if self.last_step is None else max(self.last_step, line.step)

    def as_line(self, name: str) -> dict[str, Any]:
        """The event that tells of it."""
        line: dict[str, Any] = {"kind": "event", "event": "lines_lost", "step": self.last_step, "time_s": time.time()}
        line |= {"file": name, "lines": self.lines, "steps": self.steps}
        line |= {"first_step": self.first_step, "last_step": self.last_step, "first_s": self.first_s, "last_s": self.last_s}
        return line | {"errno": errno_name(self.error), "reason": in_words(self.error)}


class LineFile:
    """Appends to `path`; the file and its folder are made with the first line. One thread at a time writes.

    Before anything was written, an error that is none of a disk's (a folder of that name, no permission) is raised: somebody has
    set this up wrongly. Later none is. `raises`: for a writer that can write the same lines again: every error is raised.
    """

    def __init__(self, path: Path, raises: bool = False) -> None:
        self.path = path
        self.is_begun = False  # a line was given to it, whether there was room or not
        self.hole: Hole | None = None
        self._raises = raises
        self._handle: int | None = None
        self._was_written = self._has_complained = False
        self._waiting: list[_Line] = []

    @property
    def is_whole(self) -> bool:
        """Whether everything so far was written."""
        return self.hole is None and not self._waiting

    def append(self, line: Mapping[str, Any], *, step: int | None, is_step: bool = False, waits: bool = False) -> None:
        """`waits`: it is kept until there is room, and not lost, unless KEPT_MAX others wait before it. Raises TypeError for what
        JSON cannot hold; OSError as the class says."""
        new = _Line(dumps(line).encode() + b"\n", step, is_step, waits)
        hole_lines: list[_Line] = []
        if self.hole is not None:
            hole_lines = [_Line(dumps(self.hole.as_line(self.path.name)).encode() + b"\n", None, False, False)]
        lines = [*hole_lines, *self._waiting, new]
        written, error = self._write(b"".join(one.data for one in lines))
        if error is None:
            self.is_begun = self._was_written = True
            self.hole, self._waiting, self._has_complained = None, [], False
            return
        if self._raises or not (self._was_written or is_of_disk(error)):
            raise error
        self.is_begun = True
        done = _count_whole(lines, written)
        self._was_written = self._was_written or done > 0
        if hole_lines and done:
            self.hole = None
        self._waiting = [one for one in lines[max(done, len(hole_lines)) :] if one.waits]
        if done < len(lines) and (not new.waits or len(self._waiting) > KEPT_MAX):
            self._waiting = self._waiting[:KEPT_MAX]
            self.hole = self.hole if self.hole is not None else Hole(error)
            self.hole.take(new)
        self._complain(error)

    def sync(self) -> None:
        """To the disk, as far as it takes it. Raises OSError where `raises`."""
        try:
            if self._handle is not None:
                os.fsync(self._handle)
        except OSError as error:
            if self._raises:
                raise
            self._complain(error)

    def _write(self, data: bytes) -> tuple[int, OSError | None]:
        """How many bytes were written, and what ended it. One call to the system, unless the disk is full or a signal cuts it
        short: a reader, or a SIGKILL, finds whole lines."""
        left = memoryview(data)
        try:
            if self._handle is None:
                self._handle = self._open()
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError as error:
            self._close()  # a handle that is stale stays so; the next line opens the file anew
            return len(data) - len(left), error
        return len(data), None

    def _open(self) -> int:
        if not self._was_written:
            ensure_directory(self.path.parent)  # later never: where the filesystem is gone, another one lies under its name
        handle = open_closed(self.path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK)  # a FIFO that is full must not hold training
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # a torn last line must not swallow the next one
                write_fully(handle, b"\n")
        except OSError:
            os.close(handle)
            raise
        return handle

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)

    def _complain(self, error: OSError) -> None:
        """Once for each time of trouble; stderr may lie on the same disk."""
        if self._has_complained:
            return
        self._has_complained = True
        with contextlib.suppress(OSError, ValueError):
            words = f"a line of {self.path} could not be written: {error}; training goes on, and what is lost is counted"
            print(f"sentinel: {words}", file=sys.stderr, flush=True)


def _count_whole(lines: list[_Line], written: int) -> int:
    """How many lines lie within so many bytes. One that lacks its newline alone is whole: whoever opens the file next adds it."""
    done = end = 0
    for line in lines:
        end += len(line.data)
        if end - 1 > written:
            break
        done += 1
    return done
