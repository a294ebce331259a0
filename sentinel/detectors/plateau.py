"""plateau: the loss has stopped falling. Worth knowing, never an alarm by itself.

Sees: a level (median of 50 samples) that has not fallen by `improvement` of its best for `window_steps` steps and 200 samples,
in a loss that still stands there. Does not see: why (the end of a schedule, a learning rate of zero, a model that never learns).

Source: an AlgoPerf run of the labelled logs stalls at 6.1 to 7.5 for most of its life. Info whatever the policy says.
"""

from __future__ import annotations

from sentinel.detectors.contract import PlateauSettings
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading
from sentinel.streams.blocks import Blocks

METRIC = "loss"
LEVEL_BLOCKS = 10
BLOCKS_MIN = 40


class Plateau:
    kind = Kind.PLATEAU

    def __init__(self, settings: PlateauSettings, blocks: Blocks) -> None:
        """`blocks` of the loss, fed by whoever owns them: `LEVEL_BLOCKS` of them at least."""
        self._settings = settings
        self._blocks = blocks
        self.begin(0)

    def begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._best: float | None = None
        self._since: tuple[int, int, float] = (0, 0, 0.0)  # step, block and arrival of the last improvement
        self._stands = False

    def step(self, reading: StepReading, now_s: float) -> list[Finding]:
        """Called when a block was completed."""
        if not self._settings.enabled or self._blocks.count < LEVEL_BLOCKS:
            return []
        level, best = self._blocks.middle(LEVEL_BLOCKS), self._best
        if best is None or level < best - self._settings.improvement * abs(best):
            self._best, self._since, self._stands = level, (reading.step, self._blocks.count, now_s), False
            return []
        since, block, visible_s = self._since
        long = reading.step - since >= self._settings.window_steps and self._blocks.count - block >= BLOCKS_MIN
        if self._stands or not long:
            return []
        self._stands = True
        share = self._settings.improvement
        reason = f"{METRIC} has not fallen by {share:.1%} since step {since}: {best:.4g} then, {level:.4g} now"
        found = Finding(
            Kind.PLATEAU, "info", self._attempt, since, reading.step, visible_s, reason, metric=METRIC, value=level, baseline=best
        )
        return [found]

    def verdict(self) -> tuple[Verdict, str]:
        if not self._settings.enabled:
            return Verdict.UNKNOWN, "switched off by policy"
        if self._best is None:
            return Verdict.UNKNOWN, "too little history to judge by"
        if self._stands:
            return Verdict.BREACHED, f"{METRIC} stands since step {self._since[0]}"
        return Verdict.HEALTHY, f"{METRIC} last improved at step {self._since[0]}"
