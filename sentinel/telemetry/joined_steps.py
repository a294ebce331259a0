"""Metrics of one step that come one after the other, put together to one reading."""

from __future__ import annotations

from collections.abc import Mapping

from sentinel.model.readings import StepReading
from sentinel.telemetry.log_reader import ATTEMPT


class JoinedSteps:
    """Rows in the order of a log; the newest step waits for what else may be logged of it. A metric's first value stands."""

    def __init__(self) -> None:
        self._step = -1
        self._time_s = 0.0
        self._metrics: dict[str, float] = {}

    def add(self, step: int, time_s: float, metrics: Mapping[str, float]) -> list[StepReading]:
        """The reading of the step before, where this row begins another one."""
        done = self.finish() if step != self._step else []
        if not self._metrics:
            self._time_s = time_s
        self._step = step
        for name, value in metrics.items():
            self._metrics.setdefault(name, value)
        return done

    def finish(self) -> list[StepReading]:
        """What waits."""
        metrics, self._metrics = self._metrics, {}
        return [StepReading(ATTEMPT, self._step, self._time_s, (), metrics)] if metrics else []
