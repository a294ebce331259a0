"""divergence: no way back. The loss stands well above the best level this attempt had reached, and stays there.

Sees: a level (median of the last 55 samples) `ratio` above its own running minimum *and* `NOISE` times the noise of a single
sample above it, for 30 samples: found within 100 samples of a slow blow-up, at any logging interval. And sooner what jumped
twice as far up: by the last 25 samples, for 15, from the 50th sample of a run on (the long look: from the 100th). Does not
see: anything that heals within 30 samples (spike), rises of less than `ratio` (drift sees those that come within hundreds of
steps), the descent's own past, swings that came back by themselves (`streams/swings.py`; the first of them is like any rise).

Source: "median of the last 50 > 1.05 × its own running minimum for 30 samples" found 2 of 2 slow divergences in 475 real runs.
Judged here in blocks of five samples. The noise condition is for noisy and for small losses, where 5 % is nothing: the largest
healthy rise in the labelled logs is 4.3 % at 0.9 times the noise, and of 100k rows of 5 % noise 5.6 % at 1.5 times; of 25
samples 5.9 % at 1.6 times and 4.9 % at 5.9 times (LOG.md).
The onset is where the blocks left the best level: behind the last one that stood less than half of the way up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.blocks import BLOCK, Block, Blocks, too_little_history
from sentinel.streams.level import Level
from sentinel.streams.swings import Swings

METRIC = "loss"
KEPT_BLOCKS = 100  # looked back for the onset
NOISE = 2.2
SWINGS_BLOCKS = 200  # for so long a rise that came back is remembered
JUMP_BLOCKS = 12  # looked back for a jump
JUMP_SHARE = 0.65  # of the way up; a swing of 60 rows makes half of its own within two blocks


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """The loss stands above the best it had reached, and does not come back."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    ratio: float = setting(0.05, "fraction", "Share above its own best level.")


@dataclass(slots=True)
class _LevelLook:
    """One length of looking. `wake`, `level`, `hold`: blocks before it judges, of the level, and for which the level must stand
    `times` the ratio above the best one. What is no longer up is not told, however high its level still is: the rows of a window
    that has healed are half of it. `is_short`: nor does it count, and what did not jump is left to the long look, for 25 rows
    follow every swing. The rest is where it stands."""

    wake: int
    level: int
    hold: int
    times: float
    is_short: bool = False
    best: float | None = None
    best_steps: tuple[int, int] = (0, 0)  # first and last step of the samples of the best level
    near: tuple[int, float] = (0, 0.0)  # step and arrival when the level was last near its best
    breached: int = 0
    firing: bool = False
    swings: Swings = field(default_factory=lambda: Swings(SWINGS_BLOCKS, lone_counts=False))

    def take(self, blocks: Blocks, ratio: float, now_s: float) -> bool:
        """Judge with the newest block; True when the level has stood above its best for long enough."""
        if blocks.count < self.level:
            return False
        step, level, sigma = blocks.steps[-1], blocks.middle(self.level), blocks.sigma
        self.swings.take(blocks.count, level, sigma)
        if blocks.count < self.wake:
            return False
        if self.best is None or level < self.best:
            self.best = level
            self.best_steps = blocks.steps[-self.level], step
        above, limit = level - self.best, max(self.times * ratio * abs(self.best), NOISE * sigma)
        if above < 0.25 * limit or not self.near[0]:
            self.near, self.firing = (step, now_s), False
        is_up = above > limit and above > NOISE * blocks.largest_sigma() and level > self.swings.limit(blocks.count, self.best)
        still_up = is_up and _is_still_up(blocks, self.best, above)
        if self.is_short:
            is_up = still_up and _has_jumped(blocks, above)
        self.breached = self.breached + 1 if is_up else 0
        return self.breached >= self.hold and still_up

    def left(self, blocks: Blocks) -> int:
        """The step behind the last block that stood less than half of the way from the best level to this one."""
        assert self.best is not None
        half, left = self.best + 0.5 * (blocks.middle(self.level) - self.best), self.best_steps[0]
        for middle, step in zip(reversed(blocks.medians), reversed(blocks.steps), strict=True):
            if middle < half:
                left = step
                break
        return left + 1


def _new_looks() -> tuple[_LevelLook, ...]:
    return _LevelLook(wake=20, level=11, hold=6, times=1.0), _LevelLook(wake=10, level=5, hold=3, times=2.0, is_short=True)


def _is_still_up(blocks: Blocks, best: float, above: float) -> bool:
    """The newest block stands more than half of the way up."""
    return blocks.middle(1) > best + 0.5 * above


def _has_jumped(blocks: Blocks, above: float) -> bool:
    """Most of the way up was made at once: two blocks stood so far above the two before them."""
    newest = blocks.medians[-JUMP_BLOCKS:]
    pairs = [(older + newer) / 2 for older, newer in pairwise(newest)]
    return max(newer - older for older, newer in zip(pairs, pairs[2:], strict=False)) > JUMP_SHARE * above


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
        self._looks = _new_looks()

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """The best level is that of the old learning rate, and what comes back under other settings did not do so by itself."""
        if quiet_until is not None:
            self.begin(replace(self._start, quiet_until=quiet_until))
        elif METRIC in moved:
            for look in self._looks:
                look.swings.begin()

    def learn_block(self, metric: str, block: Block) -> None:
        self._take(block, 0.0)

    def block(self, metric: str, block: Block, now_s: float) -> list[Finding]:
        """Blocks that began in the grace after a resume are left out: its bump must not weigh on the level afterwards either.
        A spike that fires inhibits what is found."""
        if block.first_step <= self._start.quiet_until:
            return []
        standing = self._take(block, now_s)
        if not standing or self._firing is not None or self._run.is_spiking:
            return []
        look = standing[0]
        for one in standing:
            one.firing = True
        level, best = self._blocks.middle(look.level), look.best
        assert best is not None
        onset = look.left(self._blocks)
        reason = f"{METRIC} stands at {level:.4g} since step {onset}, {_rise(level, best):.1%} above its best level of {best:.4g}"
        found = Finding(
            Kind.DIVERGENCE, self._severity, self._start.attempt, onset, block.last_step, look.near[1], reason,
            metric=METRIC, value=level, baseline=best,
        )  # fmt: skip
        return [found]

    def _take(self, block: Block, now_s: float) -> list[_LevelLook]:
        """The looks by which the loss stands above its best level now."""
        self._blocks.add(block)
        return [look for look in self._looks if look.take(self._blocks, self._ratio, now_s)]

    @property
    def _firing(self) -> _LevelLook | None:
        return next((look for look in self._looks if look.firing), None)

    def band_before(self, metric: str) -> Level | None:
        """The best level it had, while it stands above it."""
        look = self._firing
        if metric != METRIC or look is None or look.best is None:
            return None
        first, last = look.best_steps
        return Level(look.best, self._blocks.sigma / MAD_TO_SIGMA, look.level * BLOCK, first, last)

    def verdict(self) -> tuple[Verdict, str]:
        """By the long look: the short one alone has wider bounds."""
        look, firing = self._looks[0], self._firing
        if firing is None and look.best is None:
            until = too_little_history(self._blocks.awake_from(look.wake))
            return Verdict.UNKNOWN, until if self._looks[1].best is None else f"{until}, until then by wider bounds"
        shown = firing or look
        summary = f"{METRIC} level {self._blocks.middle(shown.level):.4g}, best {shown.best:.4g}"
        return (Verdict.BREACHED if firing else Verdict.HEALTHY), summary


def _rise(level: float, best: float) -> float:
    return (level - best) / max(abs(best), 1e-12)
