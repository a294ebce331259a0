"""A hang that is only suspected: no step for three step times, and the limit of a hang is not reached yet."""

from __future__ import annotations

from dataclasses import dataclass

SUSPECT_STEP_TIMES = 3.0
SUSPECT_MIN_S = 1.0


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When the newest step of the living attempt was made (session seconds), and how long one takes; None: not known yet."""

    last_step_s: float | None = None
    step_time_s: float | None = None
    steps_seen_at_once: int = 1  # a log may show every tenth step only

    def stalled_since_s(self, now_s: float) -> float | None:
        """When the last step was made, where the next one is overdue; None where it is not, or where that is not known."""
        if self.last_step_s is None or self.step_time_s is None:
            return None
        patience_s = max(SUSPECT_MIN_S, SUSPECT_STEP_TIMES * self.step_time_s * self.steps_seen_at_once)
        return self.last_step_s if now_s - self.last_step_s > patience_s else None
