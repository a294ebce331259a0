"""What DeepSpeed's engine prints of itself, beside whatever the trainer prints: steps, skipped updates, and fp16's loss scale.

    [Rank 0] step=1020, skipped=18, lr=[9.2e-06, 9.2e-06], mom=[(0.9, 0.95), (0.9, 0.95)]
    [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768

An overflow names no step. It is told with the next line that does: the scale that it left behind, and that an update overflowed.
Nothing is said of the scale between overflows, for it grows again in silence. Two engines in one log (actor and critic) have two
scales that cannot be told apart: then none is told.
"""

from __future__ import annotations

import re
from contextlib import suppress

_STEP = re.compile(rb"\bstep=(\d{1,16}), skipped=(\d{1,16}), lr=\[([^,\]]{1,40})")
_SCALE = re.compile(
    rb"(OVERFLOW!|Overflow detected\.).{0,60}Attempted loss scale: (\d[\d.]{0,40})(?:, reducing to (\d[\d.]{0,40}))?"
    rb"|dynamic loss scale from \d[\d.]{0,40} to (\d[\d.]{0,40})"
)
TWO_ENGINES = "two engines of DeepSpeed print into it, so their loss scales cannot be told apart and are left out"


class DeepSpeedNotes:
    """`remark`: what a reader of the results should know."""

    def __init__(self) -> None:
        self.remark = ""
        self._last_step = -1
        self._skipped = 0
        self._scale: float | None = None
        self._overflowed = False

    def takes_scale(self, line: bytes) -> bool:
        """Is it a line about the loss scale? Then it is remembered for the next step."""
        found = _SCALE.search(line)
        if found is None:
            return False
        overflow, attempted, reduced, grown = found.groups()
        self._overflowed = self._overflowed or overflow is not None
        try:
            self._scale = float(grown or reduced or attempted)
        except ValueError:
            self._scale = None
        return True

    def step(self, line: bytes) -> tuple[int, dict[str, float]] | None:
        """The step of a line of the engine, and what is told of it."""
        found = _STEP.search(line)
        if found is None:
            return None
        step, skipped = int(found[1]), int(found[2])
        if step == self._last_step:
            self.remark = TWO_ENGINES
            return None
        metrics: dict[str, float] = {}
        with suppress(ValueError):
            metrics["lr"] = float(found[3])
        if skipped > self._skipped and self._last_step >= 0:
            metrics["skipped"] = 1.0
        self._last_step, self._skipped = step, skipped
        if self._overflowed:
            metrics["overflow"] = 1.0
        if self._scale is not None and not self.remark:
            metrics["loss_scale"] = self._scale
        self._overflowed, self._scale = False, None
        return step, metrics
