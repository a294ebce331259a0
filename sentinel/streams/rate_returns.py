"""Where the learning rate rises again after it had fallen, as in a warm restart, and where the loss stood when it was so high.

A restart lifts the loss for a known cause, and no further than to the level that it had at that rate before. At once or by a
second warm-up: each time the rate has risen by half since its valley, or since it was last said, in two rows one after the other,
and has been so high before. A first warm-up goes where no rate was, and is none. Rates of zero or below are no evidence, and a
valley is as low as two rows in a row: one may be wrong.
Sentinel's own rule.
"""

from __future__ import annotations

from math import inf, log

FACTOR = 1.5
STEP = log(1.25)  # rates within a quarter are the same rate


class RateReturns:
    """Fed with every row's learning rate, in order, and now and then with the level of the loss at it.

    quiet: rates from the first to the second need not be fed: they change nothing."""

    __slots__ = ("_below", "_cycle", "_levels", "_low", "_noted", "_peak", "is_up", "quiet")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._low = self._peak = 0.0
        self._below: float | None = None  # the newest row, where it alone was lower; the next one may bear it out
        self.quiet = inf, inf
        self.is_up = False  # in the newest row; the next one may bear it out
        self._cycle = 0
        self._levels: dict[int, tuple[int, float]] = {}  # by rate, the cycle and the level; the newest one is the last
        self._noted = 0.0, 0  # the rate of the newest level, which most blocks repeat, and its place

    def take(self, rate: float) -> bool:
        """True where the rate has returned, so far."""
        if rate <= self._low * FACTOR or rate > self._peak or not 0.0 < rate < inf:
            self.is_up = False
            if self._peak < rate < inf:
                self._peak = rate
                self._stand_at(rate)
            elif not 0.0 < rate < self._low:
                self._stand_at(self._low)
            elif self._below is not None:
                self._stand_at(max(rate, self._below))
            else:
                self._below, self.quiet = rate, (inf, inf)
            return False
        self._below = None
        if not self.is_up:
            self.is_up, self.quiet = True, (inf, inf)  # the next row is awaited
            return False
        self.is_up = False
        self._stand_at(rate)
        self._cycle += 1
        return True

    def _stand_at(self, rate: float) -> None:
        self._low, self._below = rate, None
        self.quiet = rate * (1.0 - STEP / 10.0), min(rate * FACTOR, self._peak)

    def note(self, rate: float, level: float) -> None:
        """The level of the loss at a rate that does not rise just now."""
        if 0.0 < rate <= self._low:
            if rate != self._noted[0]:
                self._noted = rate, int(log(rate) / STEP)
            place, cycle = self._noted[1], self._cycle
            of, before = self._levels.pop(place, (0, level))
            is_same = of == cycle > 0  # in the first cycle the loss descends from its start
            self._levels[place] = cycle, max(level, before) if is_same else level

    def level_at(self, rate: float) -> float | None:
        """Of the loss when the rate was last so high: the highest of a cycle behind a restart, else the newest one; None where
        that is not known."""
        place = int(log(rate) / STEP)
        known = [one for at, one in self._levels.items() if at >= place - 1]
        newest = known[-1][0] if known else 0
        return max((level for cycle, level in known if cycle == newest > 0), default=known[-1][1] if known else None)
