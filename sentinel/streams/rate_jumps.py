"""Where the learning rate jumps: step decay, a warm restart, a schedule taken up at the wrong place. Levels before it say less.

A jump is a factor of more than `FACTOR` between neighbouring rows that the schedule was not already on its way to: warm-up and
decay move by factors too while the rate is small (the first row of a warm-up doubles, the last of a linear decay halves), but no
faster a step than just before. It is believed when the next row is nearer to the new rate than to the old, so that one wrong
row, or two parameter groups logged in turn, are none. The first two rows, and rates of zero or below, are no evidence.
Sentinel's own rule.
"""

from __future__ import annotations

from math import log

FACTOR = 1.5
FASTER = 3.0  # times the slope just before, a step


class RateJumps:
    """Fed with every row's learning rate, in order."""

    __slots__ = ("_jump", "_rate", "_slope", "_step")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._rate: float | None = None
        self._slope: float | None = None  # a step, between the last two rows
        self._step = 0
        self._jump: tuple[float, float] | None = None  # from, to: at the last row, not yet believed

    def take(self, step: int, rate: float) -> float:
        """The factor of a jump that this row confirms; 1.0 where there is none."""
        if rate == self._rate and self._jump is None:
            self._slope, self._step = 0.0, step
            return 1.0
        if not 0.0 < rate < float("inf"):
            return 1.0
        factor, jump, self._jump = 1.0, self._jump, None
        if jump is not None and abs(log(rate / jump[1])) < abs(log(rate / jump[0])):
            factor = jump[1] / jump[0]
        last, before = self._rate, self._slope
        if last is not None:
            self._slope = slope = (rate - last) / max(1, step - self._step)
            if before is not None and jump is None and not last <= rate * FACTOR <= last * FACTOR * FACTOR:
                on_its_way = slope * before > 0.0 and abs(slope) <= FASTER * abs(before)
                self._jump = None if on_its_way else (last, rate)
        self._rate, self._step = rate, step
        return factor
