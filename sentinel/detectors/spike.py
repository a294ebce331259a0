"""spike: loss or gradient norm jumps above its own recent level and stays there for the hold.

Sees: jumps of one to many steps at any logging interval. Does not see: slow climbs (drift, divergence), small jumps in the
first `min_history_steps`, values that are no number (non_finite's business), falls (too_good).

The rule: z > `z` robust deviations above the local level *and* more than `relative` above it, for the hold. On top:
- Loss. A single row, as at 5- or 100-step logging one row can satisfy the hold, must be `SINGLE_ROW_Z` times as clear;
  two rows need not. (Hard batches of coarse healthy logs reach z 9.3, single-row real spikes begin at 10; LOG.md.)
  In logs coarser than every step, where no second row need follow soon, one that is at most a fifth up must be `COARSE_ROW_Z`
  times as clear: a hard batch reaches z 10 there, at 8 to 11 % up. The next row or the gradient norm bears a spike out.
  In such logs a second row above `SECOND_ROW_Z` of `z` is enough: it is many steps later (no healthy log
  written every 5 to 500 steps has a row above z 5 and then one above z 2.5, both more than 3 % up; per-step logs have).
  And `SUSTAINED_ROWS` rows in a row above 3/8 of `z` (3 of 8) are as good as two above it: healthy logs never have three. After
  the second of them one row may dip, if it still stands above `DIP_Z` and `relative`; it does not count.
- Norms (any metric whose name contains `norm`), in log space. Alone they cry wolf: healthy runs show isolated rows up to
  39 times the level with no trace in the loss. So: at least twice the level, `NORM_ROWS` rows in a row.
Both at once. A row in which the loss is `SINGLE_ROW_Z` times as clear and the gradient norm is twice its level and above `z`
needs no hold: healthy logs have no such row (the nearest: loss z 6.6, norm z 29.9).
A young baseline (fewer than 100 samples: a log that begins in mid-run, or whose interval changed; or fewer steps than
`min_history_steps`) has no spread to trust. Then a loss is judged by ratio: 40 % and one nat above the highest of the last five
rows. The first 64 rows of a run are exempt: an optimizer may stumble once in the descent. From then on it is also judged by
`EARLY_TIMES` of `z`. The verdict stays unknown until `min_history_steps`.
In the grace after a resume, where a bump is usual, only a rise of a fifth (a norm: four times the level) fires; a lower one
fires when it outlasts the grace. Where the learning rate returned to a height it had (a warm restart), the loss is learned up to
the level it had there.
Where hard rows return in a rhythm of at most 10,000 rows (`streams/hard_rows.py`), the fourth and all that follow are no spike
while they are no longer and no higher by half than those before. So is the ninth within 300 rows, in any order.
A breach that ends before the hold is a hard batch: one finding of severity info. The onset is dated back to the first
sample of the contiguous stretch that was above `SOFT_Z`.

How each constant was chosen: LOG.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sentinel.client.settings import SETTINGS
from sentinel.detectors.contract import CALM_ROWS, Detector, Start, WatchedRun
from sentinel.detectors.hold import Hold, HoldChange, Holding, HoldState
from sentinel.detectors.settings import SettingsConflict, setting
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.baseline import MAD_TO_SIGMA, Baseline, Score, learn_history
from sentinel.streams.blocks import too_little_history
from sentinel.streams.hard_rows import HardRows, Hump
from sentinel.streams.level import Level

IDLE, PENDING, FIRING = HoldState.IDLE, HoldState.PENDING, HoldState.FIRING  # of every row: an enum is slow to ask
SOFT_Z = 3.0
NEVER_Z = -math.inf
SINGLE_ROW_Z = 1.2
COARSE_ROW_Z, COARSE_RISE = 1.5, 0.2
SECOND_ROW_Z = 0.5
SUSTAINED_Z = 0.375
SUSTAINED_ROWS = 4
DIP_AFTER_ROWS, DIP_Z = 2, 2.0
NORM_ROWS = 3
NORM_RISE = 1.0
GRACE_RISE = 0.2
YOUNG_RISE = 0.4
YOUNG_NATS = 1.0
YOUNG_ROWS = 5
YOUNG_RANGES = 3.0  # of a level that is negative, or near zero, no share can be taken: so many times the range of the rows
EARLY_TIMES = 2.0  # of `z`, before `min_history_steps`
START_STEPS = 200
START_ROWS = 64
NORM_GRACE_RISE = 3.0



@dataclass(frozen=True, slots=True)
class SpikeSettings:
    """A sudden rise above the run's own recent level."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    metrics: tuple[str, ...] = setting(("loss", "grad_norm"), "metrics", "The streams watched, each on its own.")
    z: float = setting(8.0, "positive", "Robust deviations (median and MAD of the window) above the level before a value counts.")
    relative: float = setting(
        0.03, "fraction", "And at least this share above the level, so that a very quiet run does not alarm at nothing."
    )
    window_steps: int = setting(200, "steps", "Steps the spread is learned from.", alias="window")
    level_steps: int = setting(20, "steps", "Steps the present level is the median of.", alias="level")
    min_history_steps: int = setting(
        200, "steps", "Steps seen before it judges by z; until then the verdict is unknown, and a loss has wider bounds.",
        alias="min_history",
    )  # fmt: skip

    def misfits(self) -> Iterator[SettingsConflict]:
        if self.level_steps >= self.window_steps:
            message = f"the level ({self.level_steps} steps) must be shorter than the window ({self.window_steps} steps)"
            yield SettingsConflict("level", message, "20 steps in a window of 200 steps is usual")


class Spike(Detector):
    """All watched metrics. The run is spiking while one of them stands above its band for its hold or longer."""

    kind = Kind.SPIKE

    def __init__(self, settings: SpikeSettings, run: WatchedRun) -> None:
        hold, severity = run.hold(Kind.SPIKE), run.severity(Kind.SPIKE)
        self._watches = {name: SpikeWatch(name, settings, hold, severity, run) for name in settings.metrics}
        self._all = tuple(self._watches.values())
        self._loss = self._watches.get("loss")
        self._run = run
        self.needs = frozenset(settings.metrics)

    def begin(self, start: Start) -> None:
        self._run.is_spiking, self._run.calm_rows = False, CALM_ROWS
        for watch in self._all:
            watch.begin(start.attempt, start.quiet_until)

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """Under settings that shift the level (`sentinel.client.settings`), the past's level counts less: only its newest samples
        are kept."""
        for watch in self._all:
            watch.seed(history)
        overrides = receipt.overrides
        if any(row.shifts(overrides.get(key)) for key, row in SETTINGS.items()):
            self.change_settings(None, ())

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        for watch in self._all:
            watch.forget_rhythm()
            watch.baseline.cut_level()
            if quiet_until is not None:
                watch.quiet_until = max(watch.quiet_until, quiet_until)
        if quiet_until is not None and self._loss is not None:
            self._loss.may_return_to(self._run.level_at_rate)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        found: list[Finding] = []
        firing = False
        for watch in self._all:
            finding = watch.step(reading, covered, now_s)
            if finding is not None:
                found.append(finding)
            if watch.holding.state is FIRING or watch.is_familiar:
                firing = True
        loss = self._loss
        if loss is not None and loss.holding.state is PENDING and not found:
            found = self._confirmed(loss, reading.step)
            firing = firing or bool(found)
        self._run.is_spiking = firing
        self._run.calm_rows = 0 if firing else self._run.calm_rows + 1
        return found

    def complete(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        watches = [watch for watch in self._all if watch.metric in reading.metrics]
        found = [finding for watch in watches if (finding := watch.step(reading, covered, now_s)) is not None]
        if self._loss is not None and self._loss.holding.state is PENDING and not found:
            found = self._confirmed(self._loss, reading.step)
        if any(watch.holding.state is FIRING or watch.is_familiar for watch in self._all):
            self._run.is_spiking, self._run.calm_rows = True, 0
        return found

    def _confirmed(self, loss: SpikeWatch, step: int) -> list[Finding]:
        """Loss and gradient norm both far outside in this row, and no grace: then a breach of the loss need not last."""
        norm = self._watches.get("grad_norm")
        if norm is None or step <= loss.quiet_until or not loss.is_clear or not norm.is_far(1.0):
            return []
        confirmed = loss.confirm(step)
        return [] if confirmed is None else [confirmed]

    def band_before(self, metric: str) -> Level | None:
        watch = self._watches.get(metric)
        return watch.pre_breach if watch is not None else None

    def verdict(self) -> tuple[Verdict, str]:
        for watch in self._all:
            if watch.holding.state is not IDLE:
                return Verdict.BREACHED, f"{watch.metric} above its band ({watch.holding.state})"
        judged = [watch for watch in self._all if watch.is_judged]
        unjudged = [f"{watch.metric} unknown: {watch.unknown}" for watch in self._all if not watch.is_judged]
        if not judged:
            return Verdict.UNKNOWN, "; ".join(unjudged)
        summary = unjudged + [f"{watch.metric} at z {watch.score.z:.1f}" for watch in judged if watch.score is not None]
        summary += [f"{watch.metric} was {watch.baseline.rebase_reason}" for watch in self._all if watch.baseline.rebase_reason]
        return Verdict.HEALTHY, "; ".join(summary)


def is_norm(metric: str) -> bool:
    return "norm" in metric


class SpikeWatch:
    """One metric: its baseline, and the life of its present breach."""

    def __init__(self, metric: str, settings: SpikeSettings, hold: Hold, severity: Severity, run: WatchedRun) -> None:
        self.metric = metric
        self._run = run
        self._severity = severity
        self._norm = is_norm(metric)
        self._z = settings.z
        self._rise = max(settings.relative, NORM_RISE) if self._norm else settings.relative
        self._grace_rise = NORM_GRACE_RISE if self._norm else GRACE_RISE
        self.baseline = Baseline(
            settings.window_steps, settings.level_steps, settings.min_history_steps, log_space=self._norm,
            early_rows=None if self._norm else START_ROWS,
        )  # fmt: skip
        self._hard = HardRows()
        self.holding = Holding(hold, calm_steps=max(hold.steps, settings.level_steps), rows_min=NORM_ROWS if self._norm else 1)
        self.begin(0)

    def begin(self, attempt: int, quiet_until: int = 0) -> None:
        self._attempt = attempt
        self.quiet_until = quiet_until
        self.baseline.cut()
        self.holding.reset()
        self.forget_rhythm()
        self._hump: Hump | None = None
        self.is_familiar = False  # the present breach is one more of a rhythm of hard rows
        self.pre_breach: Level | None = None
        self.score: Score | None = None
        self._may_reach = -math.inf
        self._recent: deque[float] = deque(maxlen=YOUNG_ROWS)
        self._first_step: int | None = None
        self._rows = 0
        self._soft: tuple[int, float] | None = None  # step and arrival of the stretch's first soft-breached sample
        self._peak: tuple[float, float] = (0.0, 0.0)  # z and value
        self._raised: tuple[int, int] = (0, 0)  # rows and steps in a row above SUSTAINED_Z of z
        self._dipped = False  # one row among them stood a little lower

    @property
    def is_judged(self) -> bool:
        return self.score is not None and not self.baseline.is_early

    @property
    def unknown(self) -> str:
        past = self.baseline.level()
        awake = past is not None and self.baseline.is_awake(past.last_step)
        if awake:
            return "no number in the newest row"
        wakes = self.baseline.awake_from
        if wakes is None:
            return "not logged"
        return f"{too_little_history(wakes)}{'' if self._norm else ', until then by wider bounds'}"

    def is_far(self, times: float) -> bool:
        return self.score is not None and self.score.z > times * self._z and self.score.rise > self._rise

    @property
    def is_clear(self) -> bool:
        """As far out as one row alone must be."""
        return self.is_far(SINGLE_ROW_Z)

    def may_return_to(self, level: float | None) -> None:
        """Within the grace the loss may stand where it stood when the learning rate was last so high, and is learned there."""
        past = self.baseline.level()
        noise = SOFT_Z * MAD_TO_SIGMA * past.mad if past is not None else 0.0
        self._may_reach = -math.inf if level is None else level + max(noise, self._rise * abs(level))

    def forget_rhythm(self) -> None:
        """What came down from here on may have come down for a repair."""
        self._hard.begin()

    def seed(self, history: tuple[StepReading, ...]) -> None:
        learn_history(self.baseline, self.metric, history, self._z, self._rise)

    def step(self, reading: StepReading, covered: int, now_s: float) -> Finding | None:
        value = reading.metrics.get(self.metric)
        if value is None or value - value != 0.0:
            self.score = None
            return None
        step, baseline = reading.step, self.baseline
        young = baseline.is_young and not self._norm
        score = self.score = baseline.judge(step, value, NEVER_Z if young else SOFT_Z)
        if not young and score is not None and score[0] <= SOFT_Z and self._soft is None and self.holding.state is IDLE:
            return None  # nearly every row
        if young:
            if self._is_tall_for_the_young(step, value):
                self._soft = self._soft or (step, now_s)
                return self._breach(reading, value, Score(math.inf, value / max(abs(max(self._recent)), 1e-12) - 1.0), covered)
            self._recent.append(value)
            self._rows += self._rows < START_ROWS
            if score is None and self.holding.state is not IDLE:
                self._soft, self._raised = None, (0, 0)
                self.baseline.learn(step, value)
                return self._calm(step, covered)
        if score is None:
            self.baseline.learn(step, value)
            return None
        has_returned = value <= self._may_reach and step <= self.quiet_until
        if score[0] <= SOFT_Z or has_returned:
            if self._soft is not None:
                self._come_down(score)
            if young or score[0] > SOFT_Z:
                self.baseline.learn(step, value)  # else the judgement has
            return None if self.holding.state is IDLE else self._calm(step, covered)
        if self._soft is None:
            self._soft = (step, now_s)
        limit = self._z * (EARLY_TIMES if young and self.baseline.is_early else 1.0)
        raised = score.z > limit * SUSTAINED_Z and score.rise > self._rise
        rows, steps = self._raised = (self._raised[0] + 1, self._raised[1] + covered) if raised else (0, 0)
        self._dipped = self._dipped and raised
        second = covered > 1 and not self._norm and self.holding.state is PENDING
        if raised and score.z > limit * (SECOND_ROW_Z if second else 1.0):
            return self._breach(reading, value, score, covered)
        if rows >= SUSTAINED_ROWS:
            return self._breach(reading, value, score, steps)
        if self.holding.state is IDLE and rows < 2:
            self.baseline.learn(step, value)
        else:
            self._refuse(step, value)
        return None

    def _come_down(self, score: Score) -> None:
        """A row within the band ends a stretch of raised ones, but for one that only dips."""
        if self._raised[0] >= DIP_AFTER_ROWS and not self._dipped and score.z > DIP_Z and score.rise > self._rise:
            self._dipped = True
        else:
            self._soft, self._raised, self._dipped = None, (0, 0), False

    def _is_tall_for_the_young(self, step: int, value: float) -> bool:
        if self._first_step is None:
            self._first_step = step
        starting = self._first_step <= START_STEPS and self._rows < START_ROWS
        if not self._recent or starting:
            return False
        highest = max(self._recent)
        between = highest - min(self._recent)
        scale = YOUNG_RISE * highest if highest > between else YOUNG_RANGES * between
        return value - highest > max(YOUNG_NATS, scale)

    def _breach(self, reading: StepReading, value: float, score: Score, covered: int) -> Finding | None:
        if self.holding.state is IDLE:
            self.pre_breach = self.baseline.level()
            self._peak = (0.0, 0.0)
        if score.z > self._peak[0]:
            self._peak = (score.z, value)
        alone = COARSE_ROW_Z if covered > 1 and score.rise <= COARSE_RISE else SINGLE_ROW_Z
        clear = self._norm or max(self.holding.rows + 1, self._raised[0] // 2) > 1 or score.z > self._z * alone
        tall = reading.step > self.quiet_until or score.rise > self._grace_rise
        hump = self._hump = self._grown(reading.step, value)
        self.is_familiar = self._hard.knows(hump, covered)
        waits = self.metric == "loss" and self._run.rate_rises  # in this row, and the next one tells whether it did
        convincing = clear and tall and not waits and not self.is_familiar
        change = self.holding.breach(covered, reading.time_s, convincing=convincing)
        finding = self._finding(reading.step, self._severity, "") if change is HoldChange.FIRED else None
        self._onset = self._soft or (reading.step, 0.0)
        self._refuse(reading.step, value)
        return finding

    def _grown(self, step: int, value: float) -> Hump:
        """The present hump with one more row."""
        level = self.pre_breach.median if self.pre_breach is not None else self._recent[-1] if self._recent else value
        height = math.log(value / level) if self._norm and level > 0.0 < value else value - level
        if self._hump is None:
            return Hump(step, 1, height)
        return Hump(self._hump.start, self._hump.rows + 1, max(self._hump.height, height))

    def confirm(self, step: int) -> Finding | None:
        """Another stream agrees in the very row: what is pending need not wait for its hold."""
        if self.holding.state is not PENDING or self.is_familiar:
            return None
        self.holding.state = FIRING
        return self._finding(step, self._severity, ", and the gradient norm agrees")

    def _refuse(self, step: int, value: float) -> None:
        if self.baseline.refuse(step, value):
            self.holding.reset()
            self._hump, self.is_familiar = None, False
            self._recent.clear()
            self._soft, self._raised, self._dipped = None, (0, 0), False

    def _calm(self, step: int, covered: int) -> Finding | None:
        change = self.holding.clean(covered)
        if self._hump is not None and self.holding.state is IDLE:
            self._hard.take(self._hump)
            self._hump, self.is_familiar = None, False
        if change is HoldChange.ENDED:
            return self._finding(step, "info", ", and back before the hold: a hard batch")
        return None

    def _finding(self, step: int, severity: Severity, tail: str) -> Finding:
        onset, visible_s = self._soft if self._soft is not None else self._onset
        z, value = self._peak
        band = self.pre_breach
        level = band.median if band is not None else self._recent[-1] if self._recent else None
        how = f"z {z:.1f} (limit {self._z:g})" if z < math.inf else "too early for a z"
        reason = f"{self.metric} {value:.4g} against a level of {level or 0.0:.4g}, {how}{tail}"
        return Finding(
            Kind.SPIKE, severity, self._attempt, onset, step, visible_s, reason,
            metric=self.metric, value=value, baseline=level,
        )  # fmt: skip
