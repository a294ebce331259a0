"""The lines of a stream as a chart takes them: by rising steps, and no metric of a step twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sentinel.model.readings import StepReading


@dataclass(slots=True)
class RisingSteps:
    """step: the newest that was taken. after: steps up to here are somebody else's, or were taken before.

    A step may have several lines, since an evaluation is told before the step's own or after it: each adds what the others did
    not say. Lines that fall behind the newest step are left out.
    """

    step: int = -1
    after: int = -1
    _names: set[str] = field(default_factory=set)  # of the newest step's metrics

    def take(self, reading: StepReading) -> StepReading | None:
        """What of the reading is new."""
        if reading.step < self.step or reading.step <= self.after:
            return None
        if reading.step > self.step:
            self.step, self._names = reading.step, set(reading.metrics)
            return reading
        fresh = {name: value for name, value in reading.metrics.items() if name not in self._names}
        self._names |= fresh.keys()
        return replace(reading, metrics=fresh) if fresh else None
