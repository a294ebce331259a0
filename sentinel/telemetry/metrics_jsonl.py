"""Follows attempts/N/metrics.jsonl while it is written: each whole line once, in order, whatever happens to the file.

A last line without its newline waits. A file that was replaced is read to its end before its successor is opened; one that
shrank or was rewritten in place is read again from its start (whoever consumes steps takes each only once). A damaged line is
counted and said, never in the way; many in a row mean that this is not our stream, and the source says that it is blind.
It judges nothing: a NaN loss is a reading like any other.

    stream = MetricsStream(Path("runs/demo"), attempt=1)
    readings = stream.poll(now_s)       # at most LINES_PER_POLL lines; stream.has_more says whether to ask again at once
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from sentinel.model.readings import EndReading, Reading, Receipt, StepReading, TrainerNote
from sentinel.telemetry.lineage import HISTORY_LIMIT, read_history
from sentinel.telemetry.source import Sight, describe_os_error
from sentinel.telemetry.stream_lines import parse_line

LINES_PER_POLL = 5000
BLOCKS_PER_POLL = 8
BLOCK_BYTES = 1 << 20  # also the longest line: what is longer is no line of ours
TAIL_BYTES = 32  # remembered of what was read last, to notice a file rewritten in place
MISSING_GRACE_S = 2.0  # a rotation may leave the name free for a moment
GARBLED_LINES = 50  # this many damaged lines in a row, and the source calls itself blind

Identity = tuple[int, int]


class MetricsStream:
    """The stream of one attempt. `damaged` counts the lines that could not be read, `lines` all that were whole."""

    def __init__(self, run_dir: Path, attempt: int, sight: Sight | None = None) -> None:
        self.path = run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl"
        self.attempt = attempt
        self.lines = 0
        self.damaged = 0
        self._run_dir = run_dir
        self._sight = sight if sight is not None else Sight("metrics")
        self._handle: int | None = None
        self._identity: Identity | None = None
        self._offset = 0
        self._tail = b""
        self._skipping = False  # inside a line that is too long
        self._missing_since_s: float | None = None
        self._damaged_in_row = 0
        self._last_step = 0
        self._has_more = False

    @property
    def has_more(self) -> bool:
        return self._has_more

    def poll(self, now_s: float) -> list[Reading]:
        """The whole lines written since the last poll, at most LINES_PER_POLL."""
        out: list[Reading] = []
        self._has_more = False
        try:
            if self._is_open(now_s, out):
                self._read_lines(out)
                if not self._has_more and self._was_replaced(now_s, out):
                    self._take_rest(out)
                    self._start_over()
                    if self._is_open(now_s, out):
                        self._read_lines(out)
        except OSError as error:
            self._close_handle()
            out += self._sight.lost(describe_os_error(error))
        return out

    def finish(self) -> list[Reading]:
        """The attempt is over and nothing more will come: a last line without a newline is taken as it stands."""
        out: list[Reading] = []
        try:
            if self._handle is not None:
                self._take_rest(out)
        except OSError as error:
            out += self._sight.lost(describe_os_error(error))
        return out

    def look_again(self) -> None:
        """Open the file anew at the next poll: over a network only a fresh open is sure to see the newest bytes."""
        self._close_handle()

    def close(self) -> None:
        self._close_handle()

    # -- the file ------------------------------------------------------------------------------------------------------

    def _is_open(self, now_s: float, out: list[Reading]) -> bool:
        """Open the file unless it is open. False while there is none, which is no error before there ever was one."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self._note_missing(now_s, out)
            return False
        self._handle = handle
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            self._close_handle()
            out += self._sight.lost(f"{self.path}: not a regular file")
            return False
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity:
            self._rewind()
            self._identity = identity
        self._missing_since_s = None
        return True

    def _note_missing(self, now_s: float, out: list[Reading]) -> None:
        if self._identity is None:
            out += self._regained()
        elif self._missing_since_s is None:
            self._missing_since_s = now_s
        elif now_s - self._missing_since_s >= MISSING_GRACE_S:
            out += self._sight.lost(f"{self.path}: the file is gone")

    def _was_replaced(self, now_s: float, out: list[Reading]) -> bool:
        """True when another file now stands under the name; the one that is open has been read to its end."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._note_missing(now_s, out)
            return False
        self._missing_since_s = None
        out += self._regained()
        return (status.st_dev, status.st_ino) != self._identity

    def _start_over(self) -> None:
        """Forget the file and the place in it; its successor is read from its start."""
        self._close_handle()
        self._identity = None
        self._rewind()

    def _rewind(self) -> None:
        self._offset = 0
        self._tail = b""
        self._skipping = False

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _regained(self) -> list[Reading]:
        return [*self._sight.regained()] if self._damaged_in_row < GARBLED_LINES else []

    # -- the lines -----------------------------------------------------------------------------------------------------

    def _read_lines(self, out: list[Reading]) -> None:
        """Take whole lines until the end of the file or a bound; says which in `has_more`."""
        budget = LINES_PER_POLL
        for _ in range(BLOCKS_PER_POLL):
            block = self._next_block(out)
            end = block.rfind(b"\n")
            if end < 0:
                self._has_more = self._take_endless(block, out)
                return
            lines = block[:end].split(b"\n", budget)
            left = 0
            if len(lines) > budget:
                left = len(lines.pop()) + 1
            self._consume(block, end + 1 - left)
            budget -= len(lines)
            self._take_lines(lines, out)
            if left or budget == 0 or len(block) < BLOCK_BYTES:
                self._has_more = bool(left) or len(block) == BLOCK_BYTES
                return
        self._has_more = True

    def _next_block(self, out: list[Reading]) -> bytes:
        """What stands after the last line taken, at most BLOCK_BYTES; notices a file that is not the one read so far."""
        assert self._handle is not None, "a block is read from an open file"
        size = os.fstat(self._handle).st_size
        if size == self._offset:
            return b""
        if size > self._offset:
            known = len(self._tail)
            block = os.pread(self._handle, BLOCK_BYTES + known, self._offset - known)
            if block.startswith(self._tail):
                return block[known:]
            out += self._sight.remark(f"{self.path}: rewritten in place; reading it again from its start")
        else:
            out += self._sight.remark(f"{self.path}: cut to {size} bytes; reading it again from its start")
        self._rewind()
        return os.pread(self._handle, BLOCK_BYTES, 0)

    def _consume(self, block: bytes, count: int) -> None:
        self._offset += count
        self._tail = (self._tail + block[max(0, count - TAIL_BYTES) : count])[-TAIL_BYTES:]

    def _take_endless(self, block: bytes, out: list[Reading]) -> bool:
        """A block without a newline: the start of a line still being written, unless it is longer than any line may be."""
        is_full = len(block) == BLOCK_BYTES
        if is_full and not self._skipping:
            self._skipping = True
            self._count_damage(block, f"longer than {BLOCK_BYTES} bytes", out)
        if self._skipping:
            self._consume(block, len(block))
        return is_full

    def _take_rest(self, out: list[Reading]) -> None:
        block = self._next_block(out)
        if block and not self._skipping:
            self._consume(block, len(block))
            self._take_lines(block.split(b"\n"), out)

    def _take_lines(self, lines: list[bytes], out: list[Reading]) -> None:
        first = 0
        if self._skipping:
            self._skipping, first = False, 1
        attempt = self.attempt
        for line in lines[first:] if first else lines:
            try:
                reading = parse_line(line, attempt)
            except ValueError as error:
                if line.strip():
                    self._count_damage(line, str(error), out)
                continue
            if self._damaged_in_row:
                self._damaged_in_row = 0
                out += self._regained()
            if type(reading) is StepReading:
                self._last_step = reading.step
                out.append(reading)
            elif reading is not None:
                out.append(self._complete(reading))
        self.lines += len(lines)

    def _complete(self, reading: Reading) -> Reading:
        """What the line alone cannot know: the history before a receipt, the step of a note that names none."""
        if isinstance(reading, Receipt):
            self._last_step = reading.resume_step
            history = read_history(self._run_dir, self.attempt, reading.resume_step, HISTORY_LIMIT)
            return replace(reading, history=history)
        if isinstance(reading, (TrainerNote, EndReading)) and reading.step == 0:
            return replace(reading, step=self._last_step)
        return reading

    def _count_damage(self, line: bytes, reason: str, out: list[Reading]) -> None:
        """Count it; say so at the 1st, 10th, 100th …; many in a row are blindness."""
        self.damaged += 1
        self._damaged_in_row += 1
        said = f"{self.path}: {self.damaged} damaged line(s) left out, the last after step {self._last_step}"
        if self._damaged_in_row == GARBLED_LINES:
            out += self._sight.lost(f"{self.path}: {GARBLED_LINES} lines in a row cannot be read ({reason}); is it metrics.jsonl?")
        elif str(self.damaged).rstrip("0") == "1":
            out += self._sight.remark(f"{said}: {reason}: {line[:60]!r}")
