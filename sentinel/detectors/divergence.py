"""divergence: no way back. The loss stands well above the best level this attempt had reached, and stays there.

Sees: a level (median of the last 55 samples) `ratio` above its own running minimum *and* `NOISE` times the noise of a single
sample above it, for 30 samples: found within 100 samples of a slow blow-up, at any logging interval. Does not see: anything
that heals within 30 samples (spike), rises of less than `ratio` (drift sees those that come within hundreds of steps), the
descent's own past.

Source: "median of the last 50 > 1.05 × its own running minimum for 30 samples" found 2 of 2 slow divergences in 475 real runs.
Judged here in blocks of five samples. The noise condition is for noisy and for small losses, where 5 % is nothing: the largest
healthy rise in the labelled logs is 4.3 % at 0.9 times the noise, and of 100k rows of 5 % noise 5.6 % at 1.5 times (LOG.md).
The onset is where the blocks left the best level: behind the last one that stood less than half of the way up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.blocks import BLOCK, Block, Blocks, too_little_history
from sentinel.streams.level import Level

METRIC = "loss"
LEVEL_BLOCKS = 11
KEPT_BLOCKS = 100  # looked back for the onset
HOLD_BLOCKS = 6
WAKE_BLOCKS = 20
NOISE = 2.2


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """The loss stands above the best it had reached, and does not come back."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    ratio: float = setting(0.05, "fraction", "Share above its own best level.")


class Divergence(Detector):
    kind = Kind.DIVERGENCE

    needs = frozenset({METRIC})
    blocks_of = (METRIC,)

    def __init__(self, settings: DivergenceSettings, run: WatchedRun) -> None:
        self._ratio = settings.ratio
        self._severity = run.severity(Kind.DIVERGENCE)
        self._run = run
        self._blocks = Blocks(KEPT_BLOCKS)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        self._blocks.clear()
        self._best: float | None = None
        self._best_steps = (0, 0)  # first and last step of the samples of the best level
        self._near: tuple[int, float] = (0, 0.0)  # step and arrival when the level was last near its best
        self._breached = 0
        self._firing = False

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """The best level is that of the old learning rate."""
        if quiet_until is not None:
            self.begin(replace(self._start, quiet_until=quiet_until))

    def learn_block(self, metric: str, block: Block) -> None:
        self._learn(block, 0.0)

    def block(self, metric: str, block: Block, now_s: float) -> list[Finding]:
        """Blocks that began in the grace after a resume are left out: its bump must not weigh on the level afterwards either.
        A spike that fires inhibits what is found."""
        if block.first_step <= self._start.quiet_until:
            return []
        if not self._learn(block, now_s) or self._firing or self._breached < HOLD_BLOCKS or self._run.is_spiking:
            return []
        self._firing = True
        level, best = self._blocks.middle(LEVEL_BLOCKS), self._best
        assert best is not None
        onset, visible_s = self._left(level, best), self._near[1]
        reason = f"{METRIC} stands at {level:.4g} since step {onset}, {_rise(level, best):.1%} above its best level of {best:.4g}"
        found = Finding(
            Kind.DIVERGENCE, self._severity, self._start.attempt, onset, block.last_step, visible_s, reason,
            metric=METRIC, value=level, baseline=best,
        )  # fmt: skip
        return [found]

    def _learn(self, block: Block, now_s: float) -> bool:
        """Take a block in; True when it could be judged."""
        self._blocks.add(block)
        if self._blocks.count < WAKE_BLOCKS:
            return False
        level = self._blocks.middle(LEVEL_BLOCKS)
        if self._best is None or level < self._best:
            self._best = level
            self._best_steps = self._blocks.steps[-LEVEL_BLOCKS], block.last_step
        above, limit = level - self._best, max(self._ratio * abs(self._best), NOISE * self._blocks.sigma)
        if above < 0.25 * limit or not self._near[0]:
            self._near, self._firing = (block.last_step, now_s), False
        self._breached = self._breached + 1 if above > limit else 0
        return True

    def _left(self, level: float, best: float) -> int:
        """The step behind the last block that stood less than half of the way from the best level to this one."""
        half, left = best + 0.5 * (level - best), self._best_steps[0]
        for middle, step in zip(reversed(self._blocks.medians), reversed(self._blocks.steps), strict=True):
            if middle < half:
                left = step
                break
        return left + 1

    def band_before(self, metric: str) -> Level | None:
        """The best level it had, while it stands above it."""
        if metric != METRIC or not self._firing or self._best is None:
            return None
        first, last = self._best_steps
        return Level(self._best, self._blocks.sigma / MAD_TO_SIGMA, LEVEL_BLOCKS * BLOCK, first, last)

    def verdict(self) -> tuple[Verdict, str]:
        if self._best is None:
            return Verdict.UNKNOWN, too_little_history(self._blocks.awake_from(WAKE_BLOCKS))
        level = self._blocks.middle(LEVEL_BLOCKS)
        summary = f"{METRIC} level {level:.4g}, best {self._best:.4g}"
        return (Verdict.BREACHED if self._firing else Verdict.HEALTHY), summary


def _rise(level: float, best: float) -> float:
    return (level - best) / max(abs(best), 1e-12)
