"""An attempt's stream of steps (metrics.jsonl), for whoever shows a run: its receipt, its end, a slice, all of it piece by piece.

For showing only. Whoever decides reads through `telemetry`, which misses no line and says when it is blind; here what is missing,
torn or damaged simply shows nothing. A stream of any length costs the same: the end is read from the end, a slice is found by
bisection, and of the whole a bounded number of evenly spaced pieces is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import stream_path
from sentinel.model.readings import Receipt, StepReading
from sentinel.run_files.stream_lines import parse_line, parse_object

LINE_BYTES_MAX = 1 << 20  # a longer line is none
COUNT_MAX = 2**63 - 1  # some trainers say it where they mean no end
TAIL_BYTES = 256 << 10  # some hundred lines, also of a trainer that reports every layer
PIECE_BYTES = 256 << 10
SLICE_BYTES_MAX = 2 << 20
PIECES = 32  # of a long stream that is thinned
PROBE_LINES = 64  # events may stand between two step lines; where so many do, the search looks further up
CLOSE_BYTES = 64 << 10

Row = tuple[int, dict[str, float]]
"""A step and those of its metrics that were asked for."""
Wanted = Callable[[str], bool]


# -- the receipt -------------------------------------------------------------------------------------------------------


def read_receipt(run_dir: Path, attempt: int) -> Receipt | None:
    """The first line of the attempt's stream, if it is a receipt."""
    try:
        first = parse_line(_first_line(run_dir, attempt), attempt)
    except (OSError, ValueError):
        return None
    return first if isinstance(first, Receipt) else None


def read_total_steps(run_dir: Path, attempt: int) -> int | None:
    """How many steps the whole run is to have, as the attempt's receipt says; None when it does not."""
    return _positive(run_dir, attempt, "steps")


def read_world_size(run_dir: Path, attempt: int) -> int | None:
    """How many ranks the attempt's receipt names; None when it does not say."""
    return _positive(run_dir, attempt, "world_size")


def read_tokens_per_step(run_dir: Path, attempt: int) -> int | None:
    """As the attempt's receipt says; None when it does not."""
    return _positive(run_dir, attempt, "tokens_per_step")


def read_tokens_per_sample(run_dir: Path, attempt: int) -> float | None:
    """From the receipt's tokens a step and the samples of the newest step; None when either is not said."""
    tokens = read_tokens_per_step(run_dir, attempt)
    newest = next(_steps_backwards(run_dir, attempt), None)
    samples = sum(one.end - one.start for one in newest.samples) if newest is not None else 0
    return tokens / samples if tokens is not None and samples > 0 else None


def _first_line(run_dir: Path, attempt: int) -> bytes:
    with open(stream_path(run_dir, attempt), "rb", opener=regular) as file:
        return file.readline(LINE_BYTES_MAX)


def _positive(run_dir: Path, attempt: int, name: str) -> int | None:
    """A whole number above zero that the receipt says; none where no counter is so large."""
    try:
        value: Any = parse_object(_first_line(run_dir, attempt)).get(name)
    except (OSError, ValueError):
        return None
    return value if type(value) is int and 0 < value <= COUNT_MAX else None


# -- its end -----------------------------------------------------------------------------------------------------------


def read_newest_step(run_dir: Path, attempt: int) -> int | None:
    """The newest step of the attempt's stream; None when none of the last lines is one."""
    newest = next(_steps_backwards(run_dir, attempt), None)
    return newest.step if newest is not None else None


def read_newest_metrics(run_dir: Path, attempt: int) -> Row | None:
    """Step and metrics of the newest step line; None when none of the last lines is one."""
    newest = next(_steps_backwards(run_dir, attempt), None)
    return (newest.step, dict(newest.metrics)) if newest is not None else None


def read_last_metric(run_dir: Path, attempt: int, name: str) -> tuple[int, float] | None:
    """Step and value of the newest step line that has the metric; None when none of the last lines has it."""
    having = (one for one in _steps_backwards(run_dir, attempt) if name in one.metrics)
    newest = next(having, None)
    return (newest.step, newest.metrics[name]) if newest is not None else None


def read_recent(run_dir: Path, attempt: int, name: str, rows_max: int) -> list[float]:
    """The values of a metric in the last step lines, oldest first: so many at most, and no more than the last lines hold."""
    having = (one.metrics[name] for one in _steps_backwards(run_dir, attempt) if name in one.metrics)
    return list(islice(having, rows_max))[::-1]


def lines_backwards(path: Path, bytes_max: int, block_bytes: int = PIECE_BYTES) -> Iterator[list[bytes]]:
    """The file's whole lines in blocks of lines, the last block first, of each block the oldest line first; ends early when the
    file cannot be read."""
    try:
        with open(path, "rb", opener=regular) as file:
            end = file.seek(0, os.SEEK_END)
            rest = b""  # the tail of a line whose beginning lies in the block before
            while end > 0 and bytes_max > 0 and len(rest) <= LINE_BYTES_MAX:
                size = min(block_bytes, end, bytes_max)
                end -= size
                bytes_max -= size
                file.seek(end)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines.pop(0) if end > 0 else b""
                yield lines
    except OSError:
        return


def _steps_backwards(run_dir: Path, attempt: int) -> Iterator[StepReading]:
    """The steps of the last lines, newest first. A torn last line is none."""
    for block in lines_backwards(stream_path(run_dir, attempt), TAIL_BYTES):
        for line in reversed(block):
            reading = _step(line)
            if reading is not None:
                yield reading


# -- a slice, and all of it thinned ------------------------------------------------------------------------------------


def read_steps(run_dir: Path, attempt: int, first: int, last: int, wanted: Wanted, bytes_max: int = SLICE_BYTES_MAX) -> list[Row]:
    """The step lines first..last by rising step, from `first` on as far as `bytes_max` reaches."""
    found: list[Row] = []
    try:
        with open(stream_path(run_dir, attempt), "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(_offset_of(file, size, first))
            for line in _lines(file, bytes_max):
                row = _row(line, wanted)
                if row is None or row[0] < first or (found and row[0] <= found[-1][0]):
                    continue
                if row[0] > last:
                    break
                found.append(row)
    except OSError:
        return found
    return found


def read_thinned(run_dir: Path, attempt: int, wanted: Wanted, bytes_max: int = SLICE_BYTES_MAX) -> tuple[list[Row], float]:
    """The whole attempt, of a long one evenly spaced pieces; and which share of the stream that is."""
    found: list[Row] = []
    try:
        with open(stream_path(run_dir, attempt), "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            pieces = PIECES if size > bytes_max else 1
            for piece in range(pieces):
                start = size * piece // pieces
                file.seek(start)
                if start:
                    file.readline(LINE_BYTES_MAX)  # its beginning was not read
                for line in _lines(file, bytes_max // pieces):
                    row = _row(line, wanted)
                    if row is not None and (not found or row[0] > found[-1][0]):
                        found.append(row)
    except OSError:
        return found, 0.0
    return found, min(1.0, bytes_max / max(size, 1))


def _lines(file: BufferedReader, bytes_max: int) -> Iterator[bytes]:
    taken = 0
    while taken < bytes_max:
        line = file.readline(LINE_BYTES_MAX)
        if not line:
            return
        taken += len(line)
        yield line


def _offset_of(file: BufferedReader, size: int, step: int) -> int:
    """Where a line begins that lies before `step`, at most a little before it."""
    low, high = 0, size
    while high - low > CLOSE_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline(LINE_BYTES_MAX)
        at = _next_step(file)
        if at is not None and at < step:
            low = middle
        else:
            high = middle
    if low == 0:
        return 0
    file.seek(low)
    file.readline(LINE_BYTES_MAX)
    return file.tell()


def _next_step(file: BufferedReader) -> int | None:
    for _ in range(PROBE_LINES):
        line = file.readline(LINE_BYTES_MAX)
        if not line:
            return None
        reading = _step(line)
        if reading is not None:
            return reading.step
    return None


def _row(line: bytes, wanted: Wanted) -> Row | None:
    reading = _step(line)
    if reading is None:
        return None
    return reading.step, {name: value for name, value in reading.metrics.items() if wanted(name)}


def _step(line: bytes) -> StepReading | None:
    try:
        reading = parse_line(line, 0)
    except ValueError:
        return None
    return reading if isinstance(reading, StepReading) else None


# -- all of it, as it grows --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """`has_more`: at once. `is_end`: all there is was read. `is_anew`: the stream was cut or written anew: this is its start."""

    lines: list[bytes]
    has_more: bool
    is_end: bool
    is_anew: bool = False


class StreamPieces:
    """A stream read from its beginning, or from `taken` bytes on, a bounded piece of whole lines at a time. A line longer than
    LINE_BYTES_MAX is left out, but for its end. A stream that is not there yet is empty."""

    def __init__(self, path: Path, taken: int = 0) -> None:
        self.path = path
        self.taken = taken

    def read(self, is_over: bool) -> Piece:
        """The next piece. `is_over`: nobody writes the stream any more, so a last line without its newline counts. OSError."""
        block, size, is_anew = self._read(PIECE_BYTES)
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) == PIECE_BYTES:
            block, size, _ = self._read(LINE_BYTES_MAX)
            end = block.rfind(b"\n") + 1
            if end == 0 and len(block) == LINE_BYTES_MAX:
                self.taken += len(block)
                return Piece([], has_more=self.taken < size, is_end=self.taken >= size, is_anew=is_anew)
        if is_over and self.taken + len(block) >= size:
            end = len(block)
        self.taken += end
        return Piece(block[:end].split(b"\n"), end > 0 and self.taken < size, self.taken >= size > 0, is_anew)

    def _read(self, bytes_max: int) -> tuple[bytes, int, bool]:
        try:
            with open(self.path, "rb", opener=regular) as file:
                size = os.fstat(file.fileno()).st_size
                is_anew = size < self.taken
                if is_anew:
                    self.taken = 0
                file.seek(self.taken)
                return file.read(bytes_max), size, is_anew
        except FileNotFoundError:
            return b"", 0, False
