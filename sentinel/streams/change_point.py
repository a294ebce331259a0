"""Where a rise began: the change point before an alarm, dated back in the rows that led into it.

Two estimates, for two shapes.
- `find_rise`, for what leads into an alarm. Page's cumulative sum (CUSUM, Biometrika 1954) adds up how far each row stands above
  its past, less an allowance, and never falls below zero; above a threshold something has changed, and the estimate of *when* is
  the row after its last zero (Basseville and Nikiforov, Detection of Abrupt Changes, 1993, ch. 2). That also says *connected*: a
  blip long past has been paid off by calm rows since. Rows count in robust deviations (median, MAD), at most `CLIP`, so that one
  absurd row proves nothing two rows later. Several scales: the past of a short look back is near and knows no trend, that of a
  long one is clean of a slow creep. A rise that reaches back to the edge of its window has no start there, and dates nothing.
- `find_bend`, for what climbs slowly. Two-phase regression (Hudson 1966, Hinkley 1969): a straight line that bends upwards at
  the one place where the squares are least, fitted to medians of five rows, which one or two outliers cannot move.

The allowance, threshold and clip are Sentinel's own; what they were measured on stands in the detectors' LOG.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.blocks import BLOCK

Rows = Sequence[tuple[int, float]]  # (step, value), oldest first

PAST_ROWS = 100
PAST_ROWS_MIN = 32
SCALES = (8, 32, 96, 288, 864)  # rows looked back
ALLOWANCE = 1.0
ALLOWANCE_OF_HEIGHT, ALLOWANCE_MAX = 1 / 6, 2.0  # a tall rise need not count the noise before it as its beginning
CLIP = 6.0
THRESHOLD = 5.0
EDGE = 8  # nor in the first eighth of the window: it may be older, and a longer look will tell
CLEAR = 3.0  # deviations the rise stands at, at the alarm
NEWEST_ROWS = 5
SIGMA_OF_LEVEL = 1e-3  # a past that stands still (two decimals) has some noise all the same
BEND_ROWS = 500
BEND_BLOCKS_MIN = 20
BEFORE_BLOCKS = 8
AFTER_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Rise:
    """`step`: its first row. `sum`: of deviations above the allowance, connected up to the newest row."""

    step: int
    sum: float


def find_rise(rows: Rows, after_step: int, *, log_space: bool, relative: float) -> Rise | None:
    """The start of the rise that lasts up to the newest row; None without a credible one.

    Credible: it stands `relative` above its past, and starts after `after_step`. Values that are no number count as infinitely
    high. The shortest scale that finds one counts.
    """
    scaled = [(step, _scaled(value, log_space)) for step, value in rows]
    for scale in SCALES:
        window = min(scale, len(scaled) - PAST_ROWS_MIN)
        if window < 2:
            break
        start = len(scaled) - window
        rise = _rise(scaled[max(0, start - PAST_ROWS) : start], scaled[start:], log_space=log_space, relative=relative)
        if rise is not None:
            return rise if rise.step > after_step else None
        if window < scale or scaled[start][0] <= after_step:
            break
    return None


def _scaled(value: float, log_space: bool) -> float:
    if value - value != 0.0:
        return math.inf
    if not log_space:
        return value
    return math.log(value) if value > 0.0 else -math.inf


def _rise(past: Rows, newest: Rows, *, log_space: bool, relative: float) -> Rise | None:
    finite = [value for _, value in past if value - value == 0.0]
    if len(finite) < PAST_ROWS_MIN:
        return None
    middle = _median(finite)
    size = 1.0 if log_space else max(abs(middle), 1e-12)
    sigma = max(MAD_TO_SIGMA * _median([abs(value - middle) for value in finite]), SIGMA_OF_LEVEL * size)
    half = len(finite) // 2
    climb = max(0.0, _median(finite[-half:]) - _median(finite[:half])) / half  # a row: what rose already goes on rising
    above = [value - middle - climb * (half + index) for index, (_, value) in enumerate(newest)]
    height = _median(above[-NEWEST_ROWS:]) / sigma
    allowance = min(max(ALLOWANCE, ALLOWANCE_OF_HEIGHT * height), ALLOWANCE_MAX)
    total, start = 0.0, 0
    for index, excess in enumerate(above):
        if total <= 0.0:
            total, start = 0.0, index
        total = max(0.0, total + min(excess / sigma, CLIP) - allowance)
    stands = _median(above[max(start, len(above) - NEWEST_ROWS) :])
    far = stands > CLEAR * sigma and stands > (math.log1p(relative) if log_space else relative * size)
    return Rise(newest[start][0], total) if total >= THRESHOLD and start * EDGE > len(newest) and far else None


def find_bend(rows: Rows, power: int) -> int | None:
    """The step at which a line through the newest `BEND_ROWS` rows bends upwards, and climbs from there linearly (`power` 1)
    or as a square (2: what feeds itself looks so at first). None where there are too few rows, or it does not bend upwards."""
    finite = [row for row in rows if row[1] - row[1] == 0.0][-BEND_ROWS:]
    parts = [finite[at : at + BLOCK] for at in range(len(finite) % BLOCK, len(finite), BLOCK)]
    if len(parts) < BEND_BLOCKS_MIN:
        return None
    steps = [part[BLOCK // 2][0] for part in parts]
    values = [_median([value for _, value in part]) for part in parts]
    first, span = steps[0], max(1, steps[-1] - steps[0])
    line = [(step - first) / span for step in steps]
    left = _without_line(line, values)
    best: tuple[float, int] | None = None
    for at in range(BEFORE_BLOCKS, len(line) - AFTER_BLOCKS):
        bend = _without_line(line, [max(0.0, x - line[at]) ** power for x in line])
        along, size = sum(b * y for b, y in zip(bend, left, strict=True)), sum(b * b for b in bend)
        if along > 0.0 and size > 0.0 and (best is None or along * along / size > best[0]):
            best = (along * along / size, steps[at])
    return None if best is None else best[1]


def _without_line(line: Sequence[float], values: Sequence[float]) -> list[float]:
    """What is left of the values when their own straight line is taken out (least squares)."""
    mean_x, mean_y = sum(line) / len(line), sum(values) / len(values)
    across = sum((x - mean_x) ** 2 for x in line)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(line, values, strict=True)) / max(across, 1e-12)
    return [y - mean_y - slope * (x - mean_x) for x, y in zip(line, values, strict=True)]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
