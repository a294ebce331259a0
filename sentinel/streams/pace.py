"""The run's own pace: seconds per optimizer step, learned from the trainer's clock.

The median of the newest intervals, so that a jump of the trainer's clock, an unseen evaluation or one slow step does not
move it. Left out: intervals that are zero or negative (a clock set back), the first after a launch (compilation, cold
caches), and those in which an evaluation or a checkpoint was seen. Unknown (None) until `INTERVALS_MIN` intervals.
"""

from __future__ import annotations

from collections import deque
from math import inf

INTERVALS_KEPT = 51
INTERVALS_MIN = 3
STEP_TIME_FLOOR_S = 0.001


class Pace:
    """Learned step time. `begin` at a launch keeps what was learned; `forget` drops it (another world size)."""

    def __init__(self) -> None:
        self._intervals: deque[float] = deque(maxlen=INTERVALS_KEPT)
        self._last: tuple[int, float] | None = None
        self._skip_next = False
        self._stale = False
        self._step_time_s: float | None = None

    def begin(self) -> None:
        """A launch: the interval that ends at its first step says nothing about the pace."""
        self._last = None
        self._skip_next = False

    def forget(self) -> None:
        self.begin()
        self._intervals.clear()
        self._stale = False
        self._step_time_s = None

    def interrupt(self) -> None:
        """Something slow and legitimate happens now: leave the running interval out."""
        self._skip_next = True

    def add(self, step: int, time_s: float) -> None:
        """A step ended at the trainer's `time_s`."""
        last, self._last = self._last, (step, time_s)
        if self._skip_next:
            self._skip_next = False
            return
        if last is None or step <= last[0]:
            return
        seconds = (time_s - last[1]) / (step - last[0])
        if 0.0 < seconds < inf:
            self._intervals.append(seconds)
            self._stale = True

    @property
    def step_time_s(self) -> float | None:
        """Seconds per step, or None while unknown."""
        if self._stale and len(self._intervals) >= INTERVALS_MIN:
            ordered = sorted(self._intervals)
            self._step_time_s = max(ordered[len(ordered) // 2], STEP_TIME_FLOOR_S)
            self._stale = False
        return self._step_time_s
