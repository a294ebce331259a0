"""Where a rise began: the change point before an alarm, dated back in the rows that led into it.

Three estimates, for three shapes.
- `find_rise`, for what leads into an alarm. Page's cumulative sum (CUSUM, Biometrika 1954) adds up how far each row stands above
  its past, less an allowance, and never falls below zero; above a threshold something has changed, and the estimate of *when* is
  the row after its last zero (Basseville and Nikiforov, Detection of Abrupt Changes, 1993, ch. 2). That also says *connected*: a
  blip long past has been paid off by calm rows since. Rows count in robust deviations (median, MAD), at most `CLIP`, so that one
  absurd row proves nothing two rows later. Several scales: the past of a short look back is near and knows no trend, that of a
  long one is clean of a slow creep. A metric that wanders must stand twice as high as it does of itself. A rise that reaches back
  to the edge of its window has no start there, and dates nothing.
- `find_bend`, for what climbs slowly. Two-phase regression (Hudson 1966, Hinkley 1969): a straight line that bends upwards at
  the one place where the squares are least, fitted to medians of five rows, which one or two outliers cannot move. `find_hinge`
  does it to single rows, for a climb that is steady. `find_jump` tells them apart from a level that jumped and stayed: a bend
  fitted to a jump begins long before it. So it does before a rise that settles, which `find_settling` fits.
- `find_growth`, for what feeds itself until it is a spike: its first rows lie below the noise, and no sum finds them.

The allowance, threshold and clip are Sentinel's own; what they were measured on stands in the detectors' LOG.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

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
WANDER, WANDER_SHARE, WANDER_ROWS, WANDER_BLOCKS_MIN = 2.0, 0.95, 700, 10  # times what one in twenty stretches stood by itself
LEVEL_ROWS = 15
SIGMA_OF_LEVEL = 1e-3  # a past that stands still (two decimals) has some noise all the same
BEND_ROWS = 500
BEND_BLOCKS_MIN = 20
HINGE_ROWS = (160, 320, 640)  # a longer look where the bend lies in the first quarter of a shorter one
HINGE_ROWS_MIN = 40
HINGE_EDGE = 4
HINGE_SIDE = 8  # rows on either side of a bend
SETTLING_ROWS = (10.0, 40.0, 160.0)
SETTLING_LEFT_MAX = 0.9  # of the squares that a jump or a hinge leaves
CALM_SIGMA = 3.0
DEPARTURE_ROWS = 30
DEPARTED = 0.25  # of the whole climb: more had risen already before a jump that lies in the middle of a slow one
GROWTH_ROWS, GROWTH_PAST_ROWS = 40, 60
GROWTH_RATES = (
    0.02, 0.03, 0.04, 0.05, 0.07, 0.09, 0.11, 0.13, 0.15, 0.17, 0.19, 0.21, 0.24, 0.28, 0.33, 0.4, 0.5,
)  # by row; what grows faster is a jump  # fmt: skip
GROWTH_LEFT_MAX = 3.0  # squared deviations a row that the fit may leave
GROWTH_SEEN = 1 / 3  # deviations
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
            return rise if rise.step > after_step and not _only_wanders(scaled, rise.step) else None
        if window < scale or scaled[start][0] <= after_step:
            break
    return None


def _only_wanders(scaled: Rows, start_step: int) -> bool:
    """Whether the metric stood nearly as high above its past now and then before: neighbouring rows of a healthy norm often go
    together, and such a stretch may run into an alarm that it has nothing to do with."""
    finite = [(step, value) for step, value in scaled if value - value == 0.0]
    before = [value for step, value in finite if step < start_step][-WANDER_ROWS:]
    newest = [value for step, value in finite if step >= start_step][-NEWEST_ROWS:]
    ends = range(len(before), PAST_ROWS + NEWEST_ROWS - 1, -NEWEST_ROWS)
    begins = [end - NEWEST_ROWS for end in ends]
    stood = sorted(_median(before[at : at + NEWEST_ROWS]) - _median(before[at - PAST_ROWS : at]) for at in begins)
    if not newest or len(stood) < WANDER_BLOCKS_MIN:
        return False
    stands = _median(newest) - _median(before[-PAST_ROWS:])
    return stands <= WANDER * stood[int(WANDER_SHARE * (len(stood) - 1))]


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
    finite = _finite(rows)[-BEND_ROWS:]
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


def find_hinge(rows: Rows) -> int | None:
    """The step at which a steady climb begins, to a row or two: two-phase regression like `find_bend`, but on the newest single
    rows, and with a descent that flattens before the bend (a line in the logarithm of the step), which is no bend itself.
    None where there are too few rows, or none bends upwards."""
    for look in _growing_windows(_finite(rows)):
        _, at = look.best_hinge()
        if at >= len(look.steps) // HINGE_EDGE:
            return look.steps[at]
    return None


def find_jump(rows: Rows) -> int | None:
    """The first step of a higher level, to which the loss jumped and where it stays. None where there are too few rows, where
    none is higher, or where a hinge explains the rows as well."""
    for look in _growing_windows(_behind_descent(rows)):
        jumped, at = look.best_jump()
        if jumped <= look.best_hinge()[0]:
            return None
        if at >= len(look.steps) // HINGE_EDGE:
            return look.steps[at]
    return None


def find_settling(rows: Rows, power: int) -> int | None:
    """The first step of a rise that is steep at first and settles at a higher level: a line bent to it begins long before it.
    None where a jump, or a bend of this `power`, explains the rows about as well."""
    for look in _growing_windows(_behind_descent(rows)):
        settled, at = look.best_settling()
        others = max(look.best_jump()[0], look.best_hinge(power)[0])
        if look.squares - settled > SETTLING_LEFT_MAX * (look.squares - others):
            return None
        if at >= len(look.steps) // HINGE_EDGE:
            return look.steps[at]
    return None


def find_departure(rows: Rows, lowest_step: int) -> int:
    """The step at which the rows left the level that they had up to `lowest_step`, where they stood lowest: a jump or a hinge
    before which they had not risen yet; else `lowest_step` itself. The lowest of many medians of flat noise lies anywhere in it,
    up to hundreds of rows before anything moves; a jump that is fitted to a slow climb lies in the middle of it."""
    finite = _finite(rows)
    resting = [value for step, value in finite if step <= lowest_step][-PAST_ROWS:]
    if not resting or len(finite) == len(resting):
        return lowest_step
    lowest = _median(resting)
    risen = _median([value for _, value in finite[-DEPARTURE_ROWS:]]) - lowest
    for began in (find_jump(finite), find_hinge(finite)):
        if began is not None and began > lowest_step and not had_risen(finite, began, lowest, lowest + risen):
            return began
    return lowest_step


def had_risen(rows: Rows, before_step: int, lowest: float, level: float) -> bool:
    """Whether the rows just before the step already stood a good part of the way up from `lowest` to `level`."""
    before = [value for step, value in _finite(rows) if step < before_step][-DEPARTURE_ROWS:]
    return bool(before) and _median(before) - lowest > DEPARTED * (level - lowest)


def find_growth(rows: Rows) -> int | None:
    """The step at which a rise that feeds itself began: an exponential, fitted to the newest rows above their past, is followed
    back to where it was a third of the noise of one row. None where a jump to another level explains the rows as well, or where
    neither does."""
    finite = [row for row in rows if row[1] - row[1] == 0.0][-GROWTH_ROWS - GROWTH_PAST_ROWS :]
    if len(finite) < GROWTH_ROWS + GROWTH_PAST_ROWS or rows[-1] != finite[-1]:
        return None
    past, newest = finite[:GROWTH_PAST_ROWS], finite[GROWTH_PAST_ROWS:]
    places = [math.log(step - min(0, finite[0][0]) + 1.0) for step, _ in finite]
    values = [value for _, value in finite]
    middle, at, slope = _line(places[:GROWTH_PAST_ROWS], values[:GROWTH_PAST_ROWS])
    above = [value - middle - min(slope, 0.0) * (place - at) for place, value in zip(places, values, strict=True)]
    sigma = MAD_TO_SIGMA * _median([abs(excess) for excess in above[: len(past)]])
    sigma = min(sigma, _noise_of_neighbours(values[: len(past)]))  # a level that fell once is no noise
    sigma = max(sigma, SIGMA_OF_LEVEL * abs(middle), 1e-12)
    scaled = [excess / sigma for excess in above[len(past) :]]
    left, rate, height = min(_exponential(scaled, rate) for rate in GROWTH_RATES)
    if height < CLEAR or left > GROWTH_LEFT_MAX * len(scaled) or left > 0.5 * _left_of_jump(scaled):
        return None
    back = math.ceil(math.log(height / GROWTH_SEEN) / rate)
    return newest[-1 - back][0] if back < len(newest) else None


def _noise_of_neighbours(values: Sequence[float]) -> float:
    """The deviation of one value, by how far it lies from the one before."""
    return MAD_TO_SIGMA * _median([abs(newer - older) for older, newer in pairwise(values)]) / math.sqrt(2.0)


def _exponential(values: Sequence[float], rate: float) -> tuple[float, float, float]:
    """The squares it leaves, its rate by row, and its height at the newest row."""
    shape = [math.exp(-rate * age) for age in range(len(values) - 1, -1, -1)]
    height = sum(s * v for s, v in zip(shape, values, strict=True)) / sum(s * s for s in shape)
    return sum((v - height * s) ** 2 for s, v in zip(shape, values, strict=True)), rate, height


def _left_of_jump(values: Sequence[float]) -> float:
    """The squares that the best jump from nothing to one level leaves."""
    squares = sum(value * value for value in values)
    sums = list(accumulate(reversed(values)))
    return squares - max(total * total / count for count, total in enumerate(sums, start=1))


class _NewestRows:
    """The newest rows, and what is left of their values without a line in the logarithm of the step. Every `stride`-th place is
    tried for a shape that rises there."""

    def __init__(self, rows: Rows, stride: int) -> None:
        self.steps = [step for step, _ in rows]
        self._descent = [math.log(step - min(0, self.steps[0]) + 1.0) for step in self.steps]
        self._left = _without_line(self._descent, _calmed([value for _, value in rows]))
        self._stride = stride

    def best_hinge(self, power: int = 1) -> tuple[float, int]:
        """The squares that the best upward bend explains, and the index of its row; (0.0, -1) where none bends upwards."""
        steps = self.steps
        return self._best(range(HINGE_SIDE, len(steps) - HINGE_SIDE, self._stride), lambda at: [
            float(max(0, step - steps[at]) ** power) for step in steps
        ])  # fmt: skip

    def best_jump(self) -> tuple[float, int]:
        """The same of a jump, and the index of the first row behind it."""
        count = len(self.steps)
        return self._best(range(HINGE_SIDE, count - HINGE_SIDE + 1, self._stride), lambda at: [
            float(index >= at) for index in range(count)
        ])  # fmt: skip

    def best_settling(self) -> tuple[float, int]:
        """The same of a rise that has 1/e of its way left after so many rows, for each of some numbers; the first row is counted
        as in a jump."""
        count = len(self.steps)
        places = range(HINGE_SIDE, count - HINGE_SIDE + 1, self._stride)

        def shape_of(pace: float) -> Callable[[int], Sequence[float]]:
            return lambda at: [1.0 - math.exp(min(0, at - 1 - index) / pace) for index in range(count)]

        return max(self._best(places, shape_of(pace)) for pace in SETTLING_ROWS)

    @property
    def squares(self) -> float:
        """Of what is left of the values."""
        return sum(value * value for value in self._left)

    def _best(self, places: Iterable[int], shape_at: Callable[[int], Sequence[float]]) -> tuple[float, int]:
        best = (0.0, -1)
        for at in places:
            shape = _without_line(self._descent, shape_at(at))
            along, size = sum(s * y for s, y in zip(shape, self._left, strict=True)), sum(s * s for s in shape)
            if along > 0.0 and size > 0.0 and along * along / size > best[0]:
                best = (along * along / size, at)
        return best


def _growing_windows(rows: Rows) -> Iterator[_NewestRows]:
    """Longer and longer ones, while there are rows enough."""
    for count in HINGE_ROWS:
        window = rows[-count:]
        if len(window) < HINGE_ROWS_MIN:
            return
        yield _NewestRows(window, max(1, count // HINGE_ROWS[0]))


def _finite(rows: Rows) -> Rows:
    return [row for row in rows if row[1] - row[1] == 0.0]


def _behind_descent(rows: Rows) -> Rows:
    """The finite rows, without those at the beginning that stand above the newest level. A climb to this level began after the
    descent had come down to it, and the steep part of a young run is no bend of the climb's."""
    finite = _finite(rows)
    if not finite:
        return finite
    newest = _median([value for _, value in finite[-LEVEL_ROWS:]])
    for at in range(0, len(finite) - BLOCK, BLOCK):
        if _median([value for _, value in finite[at : at + BLOCK]]) <= newest:
            return finite[at:]
    return finite


def _calmed(values: Sequence[float]) -> list[float]:
    """The values, none of them farther than `CALM_SIGMA` from the median of the five around it."""
    half = BLOCK // 2
    middles = [_median(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]
    strays = sorted(abs(value - middle) for value, middle in zip(values, middles, strict=True))
    most = CALM_SIGMA * MAD_TO_SIGMA * strays[len(strays) // 2]
    return [min(max(value, middle - most), middle + most) for value, middle in zip(values, middles, strict=True)]


def _line(line: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """Their own straight line by least squares: the mean value, the mean place, and the slope."""
    mean_x, mean_y = sum(line) / len(line), sum(values) / len(values)
    across = sum((x - mean_x) ** 2 for x in line)
    return mean_y, mean_x, sum((x - mean_x) * (y - mean_y) for x, y in zip(line, values, strict=True)) / max(across, 1e-12)


def _without_line(line: Sequence[float], values: Sequence[float]) -> list[float]:
    """What is left of the values when their own straight line is taken out."""
    mean_y, mean_x, slope = _line(line, values)
    return [y - mean_y - slope * (x - mean_x) for x, y in zip(line, values, strict=True)]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
