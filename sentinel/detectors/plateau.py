"""plateau: the loss has stopped falling. Worth knowing, never an alarm by itself.

Sees: a level (median of 50 samples) that has not fallen by `improvement` of its best for `window_steps` steps and 200 samples,
in a loss that still stands there. Does not see: why (the end of a schedule, a learning rate of zero, a model that never learns).

Source: an AlgoPerf run of the labelled logs stalls at 6.1 to 7.5 for most of its life. Info whatever the policy says.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.streams.blocks import Block

METRIC = "loss"
LEVEL_BLOCKS = 10
BLOCKS_MIN = 40


@dataclass(frozen=True, slots=True)
class PlateauSettings:
    """The loss has stopped falling: recorded as info."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    improvement: float = setting(0.005, "fraction", "A fall of this share of the best level is progress.")
    window_steps: int = setting(10_000, "steps", "Steps without progress.", alias="window")


class Plateau(Detector):
    kind = Kind.PLATEAU

    needs = frozenset({METRIC})
    blocks_of = (METRIC,)

    def __init__(self, settings: PlateauSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._blocks = run.loss_blocks
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._best: float | None = None
        self._since: tuple[int, int, float] = (0, 0, 0.0)  # step, block and arrival of the last improvement
        self._is_flat = False

    def block(self, metric: str, block: Block, now_s: float) -> list[Finding]:
        if self._blocks.count < LEVEL_BLOCKS:
            return []
        step = block.last_step
        level, best = self._blocks.middle(LEVEL_BLOCKS), self._best
        if best is None or level < best - self._settings.improvement * abs(best):
            self._best, self._since, self._is_flat = level, (step, self._blocks.count, now_s), False
            return []
        since, count, visible_s = self._since
        long = step - since >= self._settings.window_steps and self._blocks.count - count >= BLOCKS_MIN
        if self._is_flat or not long:
            return []
        self._is_flat = True
        share = self._settings.improvement
        reason = f"{METRIC} has not fallen by {share:.1%} since step {since}: {best:.4g} then, {level:.4g} now"
        found = Finding(
            Kind.PLATEAU, "info", self._attempt, since, step, visible_s, reason, metric=METRIC, value=level, baseline=best
        )
        return [found]

    def verdict(self) -> tuple[Verdict, str]:
        if self._best is None:
            return Verdict.UNKNOWN, "too little history to judge by"
        if self._is_flat:
            return Verdict.BREACHED, f"{METRIC} stands since step {self._since[0]}"
        return Verdict.HEALTHY, f"{METRIC} last improved at step {self._since[0]}"
