"""What window functions of expressions measure, kept up row by row so that reading a value costs a lookup.

A `Span` is one metric over the newest N steps or seconds: `(now - N, now]`. It holds finite values only. What it cannot tell is
NaN, which every expression takes for *unknown*: until half of the span has gone by since the run (or what is remembered of its
past) began, and with fewer than `ROWS_MIN` rows. Memory is bounded by `ROWS_MAX` rows.

Sums are kept about a centre, and are built anew when their terms no longer carry them: a single huge value must not leave its
rounding error behind when it goes (`Moments`). Definitions: quantiles interpolate linearly between order statistics (Hyndman and
Fan 1996, type 7, as Prometheus and numpy do); `mad` is the median absolute deviation, unscaled; `stddev` divides by n.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

ROWS_MIN = 3
ROWS_MAX = 10_000

Entry = tuple[int, float, float]  # step, the trainer's seconds, value
Measure = Callable[[], float]


class Span:
    """One metric over one window, with whatever keeps count of it."""

    __slots__ = ("_first", "_half", "_moments", "_ordered", "_ready", "_rows_min", "_seconds", "_sorted", "_steps", "entries")

    def __init__(self, steps: int, seconds: float) -> None:
        assert (steps > 0) != (seconds > 0), "a window has steps or seconds"
        self._steps, self._seconds = steps, seconds
        self._half = steps / 2 if steps else seconds / 2
        self._rows_min = min(ROWS_MIN, steps) if steps else ROWS_MIN
        self._ordered: Ordered | None = None
        self._sorted: list[float] | None = None  # that one's values, at hand
        self._moments: Moments | None = None
        self.entries: deque[Entry] = deque()
        self.clear()

    def clear(self) -> None:
        self.entries.clear()
        self._first: float | None = None
        self._ready = False
        if self._sorted is not None:
            self._sorted.clear()
        if self._moments is not None:
            self._moments.clear()

    def ordered(self) -> Ordered:
        """The values in order; one for all functions that need it."""
        if self._ordered is None:
            self._ordered = Ordered()
            self._sorted = self._ordered.values
        return self._ordered

    def moments(self) -> Moments:
        """Their sums; one for all functions that need them."""
        if self._moments is None:
            self._moments = Moments(self.entries)
        return self._moments

    def feed(self, step: int, time_s: float, value: float | None) -> None:
        """A row; `value` is None where the metric is missing or not finite. Time goes on all the same."""
        entries, ordered, moments = self.entries, self._sorted, self._moments
        if value is not None:
            entries.append((step, time_s, value))
            if ordered is not None:
                insort(ordered, value)
            if moments is not None:
                moments.add(step, value)
        steps = self._steps
        if not self._ready:
            self._count_down(step, time_s, value)
        while entries and (
            (entries[0][0] + steps <= step if steps else entries[0][1] + self._seconds <= time_s) or len(entries) > ROWS_MAX
        ):
            first, _, gone = entries.popleft()
            if ordered is not None:
                del ordered[bisect_left(ordered, gone)]
            if moments is not None:
                moments.drop(first, gone)

    def _count_down(self, step: int, time_s: float, value: float | None) -> None:
        """Half of the window must have gone by since its first value."""
        now = float(step) if self._steps else time_s
        if self._first is None and value is not None:
            self._first = now - 1 if self._steps else now
        self._ready = self._first is not None and now - self._first >= self._half

    def when_known(self, measure: Measure) -> Measure:
        """The measure, NaN while too little is known."""

        def guarded() -> float:
            return measure() if self._ready and len(self.entries) >= self._rows_min else math.nan

        return guarded

    def last(self) -> float:
        return self.entries[-1][2] if self.entries else math.nan

    def count(self) -> float:
        """Finite values in the window; known once half of it has gone by."""
        return float(len(self.entries)) if self._ready else math.nan

    def rate(self) -> float:
        """From the oldest to the newest value: per step, in a window of seconds per second."""
        if len(self.entries) < 2:
            return math.nan
        oldest, newest = self.entries[0], self.entries[-1]
        passed = newest[0] - oldest[0] if self._steps else newest[1] - oldest[1]
        return (newest[2] - oldest[2]) / passed if passed > 0 else math.nan


class Ordered:
    """The values of a span, sorted."""

    __slots__ = ("_run", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self._run = 0  # where the half of the values that is closest to the median began when last looked for

    def lowest(self) -> float:
        return self.values[0]

    def highest(self) -> float:
        return self.values[-1]

    def median(self) -> float:
        values = self.values
        middle = len(values) >> 1
        return values[middle] if len(values) & 1 else _between(values[middle - 1], values[middle], 0.5)

    def quantile(self, share: float) -> float:
        place = share * (len(self.values) - 1)
        below = int(place)
        lower = self.values[below]
        return lower if place == below else _between(lower, self.values[below + 1], place - below)

    def mad(self) -> float:
        """Half of the values, those closest to the median, stand side by side; where they begin moves little from row to row."""
        values, median = self.values, self.median()
        count = len(values)
        near = (count + 1) >> 1
        run = max(0, min(self._run, count - near))
        while run + near < count and values[run + near] - median < median - values[run]:
            run += 1
        while run > 0 and median - values[run - 1] <= values[run + near - 1] - median:
            run -= 1
        self._run = run
        inner = max(median - values[run], values[run + near - 1] - median)
        if count & 1:
            return inner
        left = median - values[run - 1] if run > 0 else math.inf
        right = values[run + near] - median if run + near < count else math.inf
        return _between(inner, min(left, right), 0.5)


class Moments:
    """Sums about a centre (steps and values): mean, standard deviation, slope."""

    __slots__ = ("_at", "_centre", "_count", "_entries", "_since", "_x", "_xx", "_xy", "_y", "_yy")

    def __init__(self, entries: deque[Entry]) -> None:
        self._entries = entries
        self.clear()

    def clear(self) -> None:
        self._at, self._centre = 0, 0.0
        self._count = self._since = 0
        self._x = self._y = self._xx = self._yy = self._xy = 0.0

    def add(self, step: int, value: float) -> None:
        if self._count == 0:
            self.clear()
            self._at, self._centre = step, value
        x, y = step - self._at, value - self._centre
        self._count += 1
        self._x += x
        self._y += y
        self._xx += x * x
        self._yy += y * y
        self._xy += x * y

    def drop(self, step: int, value: float) -> None:
        x, y = step - self._at, value - self._centre
        self._count -= 1
        self._since += 1
        if self._since > self._count or not (y * y < 0.5 * self._yy or y == 0.0):
            return self._build()
        self._x -= x
        self._y -= y
        self._xx -= x * x
        self._yy -= y * y
        self._xy -= x * y
        return None

    def _build(self) -> None:
        """Anew, about the middle of what is there: after as many rows as it holds, and when what carried the sums has gone."""
        entries = self._entries
        self.clear()
        if not entries:
            return
        self._at = entries[len(entries) >> 1][0]
        mean = math.fsum(entry[2] / len(entries) for entry in entries)
        self._centre = mean if mean - mean == 0.0 else entries[-1][2]
        for step, _, value in entries:
            x, y = step - self._at, value - self._centre
            self._count += 1
            self._x += x
            self._y += y
            self._xx += x * x
            self._yy += y * y
            self._xy += x * y

    def mean(self) -> float:
        return self._centre + self._y / self._count

    def stddev(self) -> float:
        spread = self._yy - self._y * self._y / self._count
        if spread < 1e-6 * self._yy:  # the values have moved away from the centre
            self._build()
            spread = self._yy - self._y * self._y / self._count
        return math.sqrt(max(spread, 0.0) / self._count) if spread - spread == 0.0 else math.nan

    def slope(self) -> float:
        spread = self._xx - self._x * self._x / self._count
        if spread < 1e-6 * self._xx:
            self._build()
            spread = self._xx - self._x * self._x / self._count
        return (self._xy - self._x * self._y / self._count) / spread if spread > 0.0 else math.nan


def _between(low: float, high: float, share: float) -> float:
    """Linear interpolation that cannot leave the interval or overflow."""
    return low * (1.0 - share) + high * share
