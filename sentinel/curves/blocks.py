"""Curves in block characters, for terminals and for text in a fixed-width font.

`sparkline` is one row, the newest at the right, linear: for a view that is drawn again and again. A bad step among many stays
visible, since each column shows the highest of its points; a value that is no number shows as '!', and a relaunch as '|'.

`draw_plot` is two rows with words, logarithmic where the values span more than a factor of LOG_SPAN, and the onset marked:

    grad_norm, steps 340..382, 0.48 to 61.2 (log)
                                             ▅█
    ▁▁▂▁▁▁▂▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▁▂▁▁▁▁██
                                             ^ onset, step 379
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from sentinel.curves.svg import LOG_SPAN

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.:-=+*#"
NON_FINITE = "!"
CUT = "|"
WIDTH = 60

T = TypeVar("T")


def columns(points: Sequence[T], width: int, is_newest_full: bool = True) -> list[list[T]]:
    """The points in at most `width` columns, oldest first. As few points per column as show them all. With `is_newest_full` the
    oldest column takes what is left over, so that old ones do not shift with every step; else the newest does."""
    if not points or width <= 0:
        return []
    per_column = math.ceil(len(points) / width)
    first = (len(points) % per_column if is_newest_full else 0) or per_column
    cuts = [0, *range(first, len(points), per_column), len(points)]
    return [list(points[a:b]) for a, b in pairwise(cuts)]


def level(value: float, low: float, high: float, levels: int, is_log: bool = False) -> int:
    """0..levels-1: how high a finite value stands between `low` and `high`."""
    if is_log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    share = (value - low) / (high - low) if high > low else 0.0
    return min(levels - 1, int(share * levels))


# -- one row, for the terminal view ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """One step as it arrived. `values` by metric name."""

    attempt: int
    step: int
    values: dict[str, float]


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
    return blocks[level(value, low, high, len(blocks))] if math.isfinite(value) else NON_FINITE


def _is_cut(cells: Sequence[Sequence[Point]], number: int) -> bool:
    return number > 0 and cells[number][0].attempt != cells[number - 1][0].attempt


# -- two rows with words, for a text -----------------------------------------------------------------------------------

Points = Sequence[tuple[int, float]]


def draw_plot(metric: str, points: Points, onset: int | None, width: int = WIDTH) -> list[str]:
    """Lines of text; none where there is nothing to see."""
    cells = columns(points, width, is_newest_full=False)
    finite = [value for cell in cells for _, value in cell if math.isfinite(value)]
    if not finite:
        return []
    low, high = min(finite), max(finite)
    is_log = low > 0 and high / low > LOG_SPAN
    heights = [_height(cell, low, high, is_log) for cell in cells]
    ladder = f" {BLOCKS}"
    upper = "".join(NON_FINITE if h is None else ladder[max(0, h - 8)] for h in heights)
    lower = "".join(NON_FINITE if h is None else ladder[min(8, h)] for h in heights)
    first, last = points[0][0], points[-1][0]
    lines = [f"{metric}, steps {first}..{last}, {low:.4g} to {high:.4g}{' (log)' if is_log else ''}", upper.rstrip(), lower]
    mark = _onset_mark(cells, onset)
    lines += [mark] if mark is not None else []
    return [*lines, f"{NON_FINITE} is NaN or infinite"] if None in heights else lines


def _height(cell: Points, low: float, high: float, is_log: bool) -> int | None:
    """1..16, of its highest value; None where one of them is no number."""
    values = [value for _, value in cell]
    if not all(math.isfinite(value) for value in values):
        return None
    return 1 + level(max(values), low, high, 16, is_log)


def _onset_mark(cells: Sequence[Points], onset: int | None) -> str | None:
    if onset is None or onset < cells[0][0][0]:
        return None
    place = next((n for n, cell in enumerate(cells) if cell[-1][0] >= onset), None)
    if place is None:
        return None
    words = f"onset, step {onset}"
    return f"{' ' * place}^ {words}" if place <= WIDTH // 2 else f"{words} ^".rjust(place + 1)
