"""drift: a slow, steady climb that no spike rule sees: +0.002 a step in the loss; a gradient norm creeping from 0.20 to 0.25.

Sees: a level (the last 30 samples) above the lowest level of the last `window_steps` steps (of 100 samples, so that noise does
not make it) by `z` times the noise of a single sample and by `relative`, climbing: each of the last three groups of 20 samples
higher than the one before, by a good part of the whole climb. Norms in log space, at least `norm_relative` above, and of
severity info whatever the policy says: healthy norms creep too. Does not see: climbs slower than the window, streams whose 60
samples do not fit into the window (coarse logging: divergence judges those), levels that jump and stay (spike, divergence), and
swings: a climb must go half as far again as those that came back by themselves (`streams/swings.py`).

Source: Sentinel's own; no published rule sees it. The level of healthy per-step logs climbs by at most 1.7 times their noise
in this way, clean t4 noise by 1.3 in 100k steps; a drift of 0.002 a step in noise of 0.05 reaches 2 in 54 to 99 steps (LOG.md).
The onset is the end of the lowest level: where the climb began.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

from sentinel.detectors.contract import CALM_ROWS, Creep, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.blocks import BLOCK, Block, Blocks, too_little_history
from sentinel.streams.level import Level
from sentinel.streams.swings import Swings

LEVEL_BLOCKS = 6
REFERENCE_BLOCKS = 20
GROUP_BLOCKS = 4
GROUPS = 3
STILL_CLIMBING = 0.15  # of the whole climb: a level that jumped long ago and wobbles is not climbing
NORM_SIGMA_MIN = 0.02  # norms logged with two decimals have no spread of their own
LOWEST_KEPT = 4096
SWINGS_WINDOWS = 6  # for so many windows a climb that came back is remembered


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """A slow, steady climb."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    metrics: tuple[str, ...] = setting(
        ("loss", "grad_norm"), "metrics", "The streams watched. Norms are recorded as info only."
    )
    z: float = setting(2.0, "positive", "Climb of the level, in units of the noise of a single sample.")
    relative: float = setting(0.03, "fraction", "And at least this share of the level.")
    norm_relative: float = setting(0.2, "positive", "Climb of a norm worth recording.")
    window_steps: int = setting(500, "steps", "The climb is measured from the lowest level of so many steps.", alias="window")
    min_history_steps: int = setting(200, "steps", "Steps seen before it judges at all.", alias="min_history")


class Slope:
    """One metric: how far its level has climbed above the lowest of the window."""

    def __init__(self, metric: str, settings: DriftSettings) -> None:
        self.metric = metric
        self.is_norm = "norm" in metric
        self._z = settings.z
        self._rise = math.log1p(settings.norm_relative) if self.is_norm else settings.relative
        self._window_steps = settings.window_steps
        self._min_steps = settings.min_history_steps
        self._blocks = Blocks(REFERENCE_BLOCKS)
        self._lowest: deque[tuple[int, float, float, int]] = deque(maxlen=LOWEST_KEPT)  # step, level, arrival, first; levels rise
        self._swings = Swings(SWINGS_WINDOWS * settings.window_steps, lone_counts=True)
        self.begin()

    def begin(self) -> None:
        self._blocks.clear()
        self._lowest.clear()
        self._swings.begin()
        self._first: int | None = None
        self.firing = False
        self.since = self.found_step = 0  # the onset of the finding, and the step at which it was found, while it fires
        self.z: float | None = None
        self.level = self.lowest = self.sigma = 0.0
        self.onset: tuple[int, float] = (0, 0.0)
        self.lowest_steps = (0, 0)  # first and last step of the samples of the lowest level

    def forget_swings(self) -> None:
        self._swings.begin()

    def take(self, block: Block, now_s: float) -> bool:
        """True when the stream is drifting now."""
        step, blocks = block.last_step, self._blocks
        if self._first is None:
            self._first = block.first_step
        blocks.add(block)
        self.z = None
        if blocks.count < LEVEL_BLOCKS:
            return False
        newest = sorted(blocks.medians[-LEVEL_BLOCKS:])[1:-1]
        self.level, self.sigma = sum(newest) / len(newest), blocks.sigma
        self._swings.take(step, self.level, self.sigma)
        if blocks.count < REFERENCE_BLOCKS:
            return False
        lowest = self._lowest
        reference = blocks.middle(REFERENCE_BLOCKS)
        while lowest and lowest[-1][1] >= reference:
            lowest.pop()
        lowest.append((step, reference, now_s, blocks.steps[-REFERENCE_BLOCKS]))
        while lowest[0][0] <= step - self._window_steps:
            lowest.popleft()
        if step - blocks.steps[-GROUPS * GROUP_BLOCKS] > self._window_steps:
            return False  # logged too coarsely to climb within the window
        self._measure()
        if step - self._first < self._min_steps:
            return False
        return self._is_drifting()

    @property
    def is_judged(self) -> bool:
        first = self._first
        return self.z is not None and first is not None and self._blocks.steps[-1] - first >= self._min_steps

    @property
    def unknown(self) -> str:
        """Why nothing is judged; empty where it is, or where nothing is logged."""
        blocks, first = self._blocks, self._first
        if first is None or self.is_judged:
            return ""
        coarse = GROUPS * GROUP_BLOCKS
        if blocks.count >= coarse and blocks.steps[-1] - blocks.steps[-coarse] > self._window_steps:
            return "logged too coarsely to see a climb within the window"
        wakes = blocks.awake_from(REFERENCE_BLOCKS)
        return too_little_history(None if wakes is None else max(wakes, first + self._min_steps))

    def _measure(self) -> None:
        at, lowest, seen_s, first = self._lowest[0]
        self.lowest_steps = first, at
        self.lowest, self.onset = lowest, (at, seen_s)
        self.z = (self.level - lowest) / max(self.sigma, NORM_SIGMA_MIN if self.is_norm else 1e-12)

    def _is_drifting(self) -> bool:
        assert self.z is not None
        if self.firing:
            self.firing = self.z > 0.5 * self._z
            return self.firing
        climbed = self.level - self.lowest
        far = self.z > self._z and climbed > (self._rise if self.is_norm else self._rise * abs(self.lowest))
        far = far and climbed > self._z * self._blocks.largest_sigma(is_log=self.is_norm)
        return far and self.level > self._swings.limit(self._blocks.steps[-1], self.lowest) and self._climbs()

    def _climbs(self) -> bool:
        groups = [self._blocks.middle(GROUP_BLOCKS, skip=GROUP_BLOCKS * age) for age in range(GROUPS)]
        rising = all(newer > older for newer, older in pairwise(groups))
        return rising and groups[0] - groups[-1] > STILL_CLIMBING * (self.level - self.lowest)

    def shown(self, value: float) -> float:
        return math.exp(min(value, 700.0)) if self.is_norm else value


class Drift(Detector):
    kind = Kind.DRIFT

    def __init__(self, settings: DriftSettings, run: WatchedRun) -> None:
        self._severity = run.severity(Kind.DRIFT)
        self._run = run
        self._slopes = {name: Slope(name, settings) for name in settings.metrics}
        self._limit = settings.z
        self.needs = frozenset(settings.metrics)
        self.blocks_of = tuple(self._slopes)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        for slope in self._slopes.values():
            slope.begin()

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """The lowest level is that of the old learning rate, and what comes back under other settings did not do so by itself."""
        if quiet_until is not None:
            self.begin(replace(self._start, quiet_until=quiet_until))
        else:
            for name in self._slopes.keys() & set(moved):
                self._slopes[name].forget_swings()

    def band_before(self, metric: str) -> Level | None:
        """The lowest level it climbs from, while it climbs."""
        slope = self._slopes.get(metric)
        if slope is None or slope.is_norm or not slope.firing:
            return None
        first, last = slope.lowest_steps
        return Level(slope.lowest, slope.sigma / MAD_TO_SIGMA, REFERENCE_BLOCKS * BLOCK, first, last)

    def creeping(self) -> Creep | None:
        """The norm that has been found creeping for longest, and still is, with the onset it was found with."""
        climbing = (slope for slope in self._slopes.values() if slope.is_norm and slope.firing)
        found = [Creep(slope.metric, slope.since, slope.found_step) for slope in climbing]
        return min(found, key=lambda one: one.lowest_step, default=None)

    def learn_block(self, metric: str, block: Block) -> None:
        self._slopes[metric].take(block, 0.0)

    def block(self, metric: str, block: Block, now_s: float) -> list[Finding]:
        """While a spike fires, or its rows are still in the level, nothing is found: what it left behind is no slow climb.
        A block that began in the grace after a resume is not judged."""
        if block.first_step <= self._start.quiet_until:
            return []
        slope = self._slopes[metric]
        was_firing = slope.firing
        if not slope.take(block, now_s) or was_firing or self._run.calm_rows < CALM_ROWS:
            return []
        slope.firing, slope.since, slope.found_step = True, slope.onset[0], block.last_step
        return [self._finding(slope, block.last_step)]

    def _finding(self, slope: Slope, step: int) -> Finding:
        onset, visible_s = slope.onset
        level, lowest = slope.shown(slope.level), slope.shown(slope.lowest)
        reason = f"{slope.metric} climbs since step {onset}: {lowest:.4g} to {level:.4g}, {slope.z or 0.0:.1f} times its noise"
        severity: Severity = "info" if slope.is_norm else self._severity
        return Finding(
            Kind.DRIFT, severity, self._start.attempt, onset, step, visible_s, reason,
            metric=slope.metric, value=level, baseline=lowest,
        )  # fmt: skip

    def verdict(self) -> tuple[Verdict, str]:
        judged = [slope for slope in self._slopes.values() if slope.is_judged]
        if not judged:
            unknown = {slope.unknown: None for slope in self._slopes.values() if slope.unknown}
            return Verdict.UNKNOWN, "; ".join(unknown) or too_little_history(None)
        summary = "; ".join(f"{slope.metric} {slope.z or 0.0:+.1f} of {self._limit:g}" for slope in judged)
        breached = any(slope.firing and not slope.is_norm for slope in judged)
        return (Verdict.BREACHED if breached else Verdict.HEALTHY), summary
