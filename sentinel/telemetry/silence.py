"""Which ranks are silent: their heartbeat has not changed for twice the time of a step, and no step was made meanwhile."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

STEPS_SILENT = 2.0  # step times; a hang is believed after three
SILENT_MIN_S = 1.5
SILENT_UNKNOWN_S = 60.0  # while no step time is known: what comes before the first steps may take minutes
STEPS_KEPT = 9
STEPS_KNOWN = 4  # so many steps give a step time


class LastHeartbeat(Protocol):
    """A rank's newest heartbeat, first read at `changed_s`."""

    @property
    def step(self) -> int: ...
    @property
    def changed_s(self) -> float: ...


@dataclass(slots=True)
class Silence:
    """Of one attempt. It learns the step time from the heartbeats."""

    _step: int = -1
    _stepped_s: float = 0.0
    _steps_timed: int = 0  # heartbeats may come once in many steps; what was measured over four is known
    _step_times_s: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))

    def note(self, now_s: float, lives: Mapping[int, LastHeartbeat]) -> None:
        step = max((life.step for life in lives.values()), default=-1)
        if step > self._step:
            if self._step >= 0:
                self._step_times_s.append((now_s - self._stepped_s) / (step - self._step))
                self._steps_timed += step - self._step
            self._step, self._stepped_s = step, now_s

    def ranks(self, now_s: float, lives: Mapping[int, LastHeartbeat]) -> list[int]:
        long_s = self._long_s()
        if now_s - self._stepped_s < long_s:
            return []
        return [rank for rank, life in lives.items() if now_s - life.changed_s >= long_s]

    def _long_s(self) -> float:
        if self._steps_timed < STEPS_KNOWN:
            return SILENT_UNKNOWN_S
        return max(SILENT_MIN_S, STEPS_SILENT * statistics.median(self._step_times_s))
