"""What expressions remember of the metrics they read: one `MetricMemory` a run, fed once a row, shared by all rules.

A value that is not finite never enters a window; it is counted (`nonfinite`) and makes whoever reads the metric in that row
unknown, which is the reader's business. Two rules that ask for the same window share it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from sentinel.streams.measures import ROWS_MAX, Measure, Span


class _Misses:
    """Rows of one metric that were no finite number, within a window."""

    __slots__ = ("_places", "_seconds", "_steps")

    def __init__(self, steps: int, seconds: float) -> None:
        self._steps, self._seconds = steps, seconds
        self._places: deque[float] = deque(maxlen=ROWS_MAX)

    def clear(self) -> None:
        self._places.clear()

    def feed(self, step: int, time_s: float, is_miss: bool) -> None:
        here, oldest = (float(step), step - self._steps) if self._steps else (time_s, time_s - self._seconds)
        if is_miss:
            self._places.append(here)
        while self._places and self._places[0] <= oldest:
            self._places.popleft()

    def count(self) -> float:
        return float(len(self._places))


class _Track:
    """One metric: its windows, its newest finite value."""

    __slots__ = ("misses", "name", "newest", "newest_step", "spans")

    def __init__(self, name: str) -> None:
        self.name = name
        self.spans: dict[tuple[int, float], Span] = {}
        self.misses: dict[tuple[int, float], _Misses] = {}
        self.newest = math.nan
        self.newest_step: int | None = None


class MetricMemory:
    """Windows by metric. `measure` asks for one, before the first row; `feed` keeps all of them up to date."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._step = 0

    def clear(self) -> None:
        """Another attempt, or a relaunch inside it."""
        for track in self._tracks.values():
            track.newest, track.newest_step = math.nan, None
            for span in track.spans.values():
                span.clear()
            for misses in track.misses.values():
                misses.clear()

    def feed(self, step: int, time_s: float, metrics: Mapping[str, float]) -> None:
        self._step = step
        get = metrics.get
        for track in self._tracks.values():
            value = get(track.name)
            is_miss = value is not None and value - value != 0.0
            if is_miss:
                value = None
            elif value is not None:
                track.newest, track.newest_step = value, step
            for span in track.spans.values():
                span.feed(step, time_s, value)
            for misses in track.misses.values():
                misses.feed(step, time_s, is_miss)

    def measure(self, function: str, metric: str, steps: int = 0, seconds: float = 0.0, quantile: float | None = None) -> Measure:
        """A function of no arguments that says what the window holds now; NaN while it is unknown."""
        track = self._tracks.setdefault(metric, _Track(metric))
        if function == "age":
            return lambda: math.nan if track.newest_step is None else float(self._step - track.newest_step)
        if steps == 0 and seconds == 0.0:
            assert function == "last", f"{function} needs a window"
            return lambda: track.newest
        key = (steps, seconds)
        if function == "nonfinite":
            return track.misses.setdefault(key, _Misses(steps, seconds)).count
        span = track.spans.setdefault(key, Span(steps, seconds))
        if function in ("last", "count", "rate"):
            return {"last": span.last, "count": span.count, "rate": span.rate}[function]
        if function in ("mean", "stddev", "slope"):
            moments = span.moments()
            return span.when_known({"mean": moments.mean, "stddev": moments.stddev, "slope": moments.slope}[function])
        ordered = span.ordered()
        if function == "quantile":
            assert quantile is not None
            share = quantile
            return span.when_known(lambda: ordered.quantile(share))
        named = {"median": ordered.median, "mad": ordered.mad, "min": ordered.lowest, "max": ordered.highest}
        return span.when_known(named[function])
