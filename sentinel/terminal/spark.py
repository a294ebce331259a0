"""A series as one row of block characters, the newest at the right. Each column shows the highest of its points, so that one
bad step among many stays visible; a value that is no number shows as '!', and a relaunch as '|'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.:-=+*#"
NON_FINITE = "!"
CUT = "|"


@dataclass(frozen=True, slots=True)
class Point:
    """One step as it arrived. `values` by metric name."""

    attempt: int
    step: int
    values: dict[str, float]


def columns(points: Sequence[Point], width: int) -> list[list[Point]]:
    """The newest points in at most `width` columns, oldest first. As few points per column as show them all."""
    if not points or width <= 0:
        return []
    per_column = math.ceil(len(points) / width)
    first = len(points) % per_column  # the newest column is always full, so that old ones do not shift with every step
    cuts = [0, *range(first or per_column, len(points) + 1, per_column)]
    return [list(points[a:b]) for a, b in pairwise(cuts)]


def sparkline(cells: Sequence[Sequence[Point]], metric: str, blocks: str = BLOCKS) -> str:
    """One character per column, scaled to the lowest and highest finite value shown."""
    highs: list[float | None] = []
    for cell in cells:
        values = [p.values[metric] for p in cell if metric in p.values]
        bad = any(not math.isfinite(v) for v in values)
        highs.append(math.nan if bad else max(values) if values else None)
    finite = [v for v in highs if v is not None and math.isfinite(v)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return "".join(_cell(value, low, high, blocks, _is_cut(cells, n)) for n, value in enumerate(highs))


def find_column(cells: Sequence[Sequence[Point]], attempt: int, step: int) -> int | None:
    """The column that holds the first point of that attempt at or after the step; None when it has left the window."""
    for number, cell in enumerate(cells):
        if any(p.attempt == attempt and p.step >= step for p in cell):
            oldest = number == 0 and cell[0].attempt == attempt and cell[0].step > step
            return None if oldest else number
    return None


def _cell(value: float | None, low: float, high: float, blocks: str, is_cut: bool) -> str:
    if is_cut:
        return CUT
    if value is None:
        return " "
    if not math.isfinite(value):
        return NON_FINITE
    share = (value - low) / (high - low) if high > low else 0.0
    return blocks[min(len(blocks) - 1, int(share * len(blocks)))]


def _is_cut(cells: Sequence[Sequence[Point]], number: int) -> bool:
    return number > 0 and cells[number][0].attempt != cells[number - 1][0].attempt
