"""Hold before firing: pending → firing → resolved. Counted in steps and in the trainer's seconds, never in samples.

A run that logs every 5 steps holds a spike for `2 steps` with one row; a run that logs every step needs two. Time is the
readings' own, so that re-reading a stream gives the same answer. Kinds that are certain at once have no hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a breach must last: both at least. A policy writes one of the two; both zero means at once."""

    steps: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        assert min(self.steps, self.seconds) >= 0, f"a hold cannot be negative: {self}"


class HoldState(StrEnum):
    IDLE = "idle"
    PENDING = "pending"
    FIRING = "firing"


class HoldChange(StrEnum):
    """What a sample did to the state."""

    NONE = "none"
    PENDING = "pending"
    FIRED = "fired"
    ENDED = "ended"
    RESOLVED = "resolved"


class Holding:
    """One breach's life. `rows_min` adds a number of samples that must agree, whatever steps they stand for."""

    __slots__ = (
        "_calm_s", "_calm_steps", "_hold", "_quiet_since_s", "_quiet_steps", "_rows_min", "_since_s", "_steps", "rows", "state",
    )  # fmt: skip

    def __init__(self, hold: Hold, *, calm_steps: int, calm_s: float = 0.0, rows_min: int = 1) -> None:
        self._hold = hold
        self._calm_steps = calm_steps
        self._calm_s = calm_s
        self._rows_min = rows_min
        self.reset()

    def reset(self) -> None:
        self.state = HoldState.IDLE
        self.rows = 0
        self._steps = 0
        self._since_s = 0.0
        self._quiet_steps = 0
        self._quiet_since_s: float | None = None

    def breach(self, covered: int, time_s: float, *, convincing: bool = True) -> HoldChange:
        """A breached sample that stands for `covered` steps. Fires when it has lasted and is convincing."""
        self._quiet_steps, self._quiet_since_s = 0, None
        if self.state is HoldState.FIRING:
            return HoldChange.NONE
        began = self.state is HoldState.IDLE
        if began:
            self.state = HoldState.PENDING
            self.rows, self._steps, self._since_s = 0, 0, time_s
        self.rows += 1
        self._steps += covered
        lasted = self._steps >= self._hold.steps and time_s - self._since_s >= self._hold.seconds
        if lasted and self.rows >= self._rows_min and convincing:
            self.state = HoldState.FIRING
            return HoldChange.FIRED
        return HoldChange.PENDING if began else HoldChange.NONE

    def clean(self, covered: int, time_s: float = 0.0) -> HoldChange:
        """A clean sample: ends what was pending at once, resolves what fires after `calm_steps` and `calm_s` of calm."""
        if self.state is HoldState.PENDING:
            self.reset()
            return HoldChange.ENDED
        if self.state is HoldState.FIRING:
            self._quiet_steps += covered
            self._quiet_since_s = time_s if self._quiet_since_s is None else self._quiet_since_s
            if self._quiet_steps >= self._calm_steps and time_s - self._quiet_since_s >= self._calm_s:
                self.reset()
                return HoldChange.RESOLVED
        return HoldChange.NONE
