"""Curves in block characters, for terminals and for text in a fixed-width font.

`sparkline` is one row, the newest at the right, linear: for a view that is drawn again and again. A bad step among many stays
visible, since each column shows the highest of its points; a value that is no number shows as '!', and a relaunch as '|'. What
lies outside the scale (`reach`) shows as '▲' or '▼'.

`draw_plot` is two rows with words, logarithmic where the values span more than a factor of LOG_SPAN, and the onset marked:

    grad_norm, steps 340..382, 0.48 to 61.2 (log)
                                             ▅█
    ▁▁▂▁▁▁▂▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▁▂▁▁▁▁██
                                             ^ onset, step 379

It shows one break of one attempt, whole: there the spike is the subject.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from sentinel.curves.reach import Reach, reach_of
from sentinel.curves.svg import LOG_SPAN

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.:-=+*#"
ABOVE, BELOW = "▲", "▼"
ASCII_ABOVE, ASCII_BELOW = "^", "v"
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


def survives_always(point: Point) -> bool:
    del point
    return True


def sparkline(
    cells: Sequence[Sequence[Point]], metric: str, blocks: str = BLOCKS, survives: Callable[[Point], bool] = survives_always
) -> str:
    """One character per column, on the scale of the points that survive."""
    highs = [_highest(cell, metric) for cell in cells]
    kept = (_highest([p for p in cell if survives(p)], metric) for cell in cells)
    reach = reach_of((v for v in kept if v is not None), (v for v in highs if v is not None)) or Reach(0.0, 0.0)
    return "".join(CUT if _is_cut(cells, n) else _cell(value, reach, blocks) for n, value in enumerate(highs))


def find_column(cells: Sequence[Sequence[Point]], attempt: int, step: int) -> int | None:
    """The column that holds the first point of that attempt at or after the step; None when it has left the window."""
    for number, cell in enumerate(cells):
        if any(p.attempt == attempt and p.step >= step for p in cell):
            oldest = number == 0 and cell[0].attempt == attempt and cell[0].step > step
            return None if oldest else number
    return None


def _highest(cell: Sequence[Point], metric: str) -> float | None:
    """NaN where one of them is no number; None where none of them tells the metric."""
    values = [p.values[metric] for p in cell if metric in p.values]
    if not all(math.isfinite(value) for value in values):
        return math.nan
    return max(values, default=None)


def _cell(value: float | None, reach: Reach, blocks: str) -> str:
    if value is None:
        return " "
    if not math.isfinite(value):
        return NON_FINITE
    if side := reach.side(value):
        above, below = (ABOVE, BELOW) if blocks == BLOCKS else (ASCII_ABOVE, ASCII_BELOW)
        return above if side > 0 else below
    return blocks[level(value, reach.low, reach.high, len(blocks))]


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
