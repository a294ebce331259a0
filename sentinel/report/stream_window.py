"""A stretch of an attempt's stream, found without reading what lies before it: steps rise, so the place is found by halving.

For people: a month's stream holds gigabytes, and of it the fifty steps around a change are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.model.readings import StepReading
from sentinel.telemetry.stream_lines import parse_line

PIECE_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 20
HALVINGS_MAX = 64
STEPS_MAX = 4096

Row = tuple[int, Mapping[str, float]]


def read_window(run_dir: Path, attempt: int, first: int, last: int) -> list[Row]:
    """The steps from `first` to `last` with their metrics, at most STEPS_MAX. A stream that cannot be read has none."""
    if last < first:
        return []
    try:
        with open(stream_path(run_dir, attempt), "rb") as file:
            return _read(file.fileno(), os.fstat(file.fileno()).st_size, attempt, first, min(last, first + STEPS_MAX - 1))
    except OSError:
        return []


def _read(handle: int, size: int, attempt: int, first: int, last: int) -> list[Row]:
    place, rest = _place_of(handle, size, attempt, first), b""
    rows: list[Row] = []
    while place < size:
        piece = os.pread(handle, PIECE_BYTES, place)
        if not piece:
            break
        place += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            found = _step(line, attempt)
            if found is not None and found[0] > last:
                return rows
            if found is not None and found[0] >= first:
                rows.append(found)
        if len(rest) > LINE_BYTES_MAX:
            rest = b""
    return rows


def _place_of(handle: int, size: int, attempt: int, first: int) -> int:
    """An offset before the line of step `first`, and not far before it."""
    low, high = 0, size
    for _ in range(HALVINGS_MAX):
        if high - low <= PIECE_BYTES:
            break
        middle = (low + high) // 2
        step = _first_step_behind(handle, middle, min(high, middle + LINE_BYTES_MAX), attempt)
        if step is None or step >= first:
            high = middle
        else:
            low = middle
    return low


def _first_step_behind(handle: int, offset: int, end: int, attempt: int) -> int | None:
    data = os.pread(handle, end - offset, offset)
    for line in data.split(b"\n")[1:-1]:
        found = _step(line, attempt)
        if found is not None:
            return found[0]
    return None


def _step(line: bytes, attempt: int) -> Row | None:
    try:
        reading = parse_line(line, attempt) if line else None
    except ValueError:
        return None
    return (reading.step, reading.metrics) if isinstance(reading, StepReading) else None
