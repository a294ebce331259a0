"""A metric around an onset as two rows of block characters with the onset marked, for a page in a fixed-width font.

grad_norm, steps 340..382, 0.48 to 61.2 (log)
                                         ▅█
▁▁▂▁▁▁▂▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▂▁▁▁▁▁▂▁▁▁▁▂▁▁▁▁██
                                         ^ onset, step 379
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 60
NON_FINITE = "!"
LOG_SPAN = 10.0

Points = Sequence[tuple[int, float]]


def draw_plot(metric: str, points: Points, onset: int | None, width: int = WIDTH) -> list[str]:
    """Lines of text; none where there is nothing to see."""
    columns = _columns(points, width)
    finite = [value for column in columns for _, value in column if math.isfinite(value)]
    if not columns or not finite:
        return []
    low, high = min(finite), max(finite)
    is_log = low > 0 and high / low > LOG_SPAN
    heights = [_height(column, low, high, is_log) for column in columns]
    upper = "".join(NON_FINITE if h is None else BLOCKS[max(0, h - 8)] for h in heights)
    lower = "".join(NON_FINITE if h is None else BLOCKS[min(8, h)] for h in heights)
    first, last = points[0][0], points[-1][0]
    lines = [f"{metric}, steps {first}..{last}, {low:.4g} to {high:.4g}{' (log)' if is_log else ''}", upper.rstrip(), lower]
    mark = _mark(columns, onset)
    if any(h is None for h in heights):
        lines.append(f"{NON_FINITE} is NaN or infinite")
        lines[-1:] = [] if mark is None else [mark, lines[-1]]
        return lines
    return lines if mark is None else [*lines, mark]


def _columns(points: Points, width: int) -> list[list[tuple[int, float]]]:
    """Evenly filled, at most `width` of them, oldest first."""
    per_column = math.ceil(len(points) / width) if points else 1
    cuts = [*range(0, len(points), per_column), len(points)]
    return [list(points[a:b]) for a, b in pairwise(cuts)]


def _height(column: Points, low: float, high: float, is_log: bool) -> int | None:
    """1..16, of its highest value; None where one of them is no number."""
    values = [value for _, value in column]
    if not all(math.isfinite(value) for value in values):
        return None
    top, floor, ceiling = max(values), low, high
    if is_log:
        top, floor, ceiling = math.log(top), math.log(low), math.log(high)
    share = (top - floor) / (ceiling - floor) if ceiling > floor else 0.0
    return 1 + min(15, int(share * 16))


def _mark(columns: Sequence[Points], onset: int | None) -> str | None:
    if onset is None or onset < columns[0][0][0]:
        return None
    place = next((n for n, column in enumerate(columns) if column[-1][0] >= onset), None)
    if place is None:
        return None
    words = f"onset, step {onset}"
    return f"{' ' * place}^ {words}" if place <= WIDTH // 2 else f"{words} ^".rjust(place + 1)
