"""Steps of an attempt's stream around a place, for people: found by bisection, so that a stream of any length costs the same.

For showing only, like `stream_file`: what is missing, torn or damaged simply shows nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import as_float

BYTES_MAX = 2 << 20
LINE_BYTES_MAX = 1 << 20
PROBE_LINES = 64  # events may stand between two step lines; where so many do, the search looks further up
CLOSE_BYTES = 64 << 10
PIECES = 32

Row = tuple[int, dict[str, float]]
"""A step and those of its metrics that were asked for."""
Wanted = Callable[[str], bool]


def read_steps(run_dir: Path, attempt: int, first: int, last: int, wanted: Wanted, bytes_max: int = BYTES_MAX) -> list[Row]:
    """The step lines first..last by rising step, from `first` on as far as `bytes_max` reaches."""
    found: list[Row] = []
    try:
        with stream_path(run_dir, attempt).open("rb") as file:
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


def read_thinned(run_dir: Path, attempt: int, wanted: Wanted, bytes_max: int = BYTES_MAX) -> tuple[list[Row], float]:
    """The whole attempt, of a long one evenly spaced pieces; and which share of the stream that is."""
    found: list[Row] = []
    try:
        with stream_path(run_dir, attempt).open("rb") as file:
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


def read_world_size(run_dir: Path, attempt: int) -> int | None:
    """How many ranks the attempt's receipt names; None when it does not say."""
    try:
        with stream_path(run_dir, attempt).open("rb") as file:
            size = _fields(file.readline(LINE_BYTES_MAX)).get("world_size")
    except OSError:
        return None
    return size if type(size) is int and size > 0 else None


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
        row = _row(line, _nothing)
        if row is not None:
            return row[0]
    return None


def _nothing(name: str) -> bool:
    del name
    return False


def _row(line: bytes, wanted: Wanted) -> Row | None:
    fields = _fields(line)
    step = fields.get("step")
    if fields.get("kind", "step") != "step" or type(step) is not int or step < 0:
        return None
    values: dict[str, float] = {}
    for name, value in fields.items():
        if wanted(name):
            try:
                values[name] = as_float(value)
            except ValueError:
                continue
    return step, values


def _fields(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
