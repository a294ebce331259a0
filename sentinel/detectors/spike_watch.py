"""One metric watched for spikes, and the constants of the rule that `spike.py` tells. How each was chosen: LOG.md."""

from __future__ import annotations

import math
from collections import deque

from sentinel.detectors.contract import SpikeSettings
from sentinel.detectors.hold import Change, Hold, Holding, State
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import StepReading
from sentinel.streams.baseline import Baseline, Level, Score, learn_history

SOFT_Z = 3.0
NEVER_Z = -math.inf
SINGLE_ROW_Z = 1.2
SECOND_ROW_Z = 0.5
SUSTAINED_Z = 0.375
SUSTAINED_ROWS = 4
NORM_ROWS = 3
NORM_RISE = 1.0
GRACE_RISE = 0.2
YOUNG_RISE = 0.4
YOUNG_NATS = 1.0
YOUNG_ROWS = 5
START_STEPS = 200
START_ROWS = 64
NORM_GRACE_RISE = 3.0


def is_norm(metric: str) -> bool:
    return "norm" in metric


class Watch:
    """One metric: its baseline, and the life of its present breach."""

    def __init__(self, metric: str, settings: SpikeSettings, hold: Hold, severity: Severity) -> None:
        self.metric = metric
        self._severity = severity
        self._norm = is_norm(metric)
        self._z = settings.z
        self._rise = max(settings.relative, NORM_RISE) if self._norm else settings.relative
        self._grace_rise = NORM_GRACE_RISE if self._norm else GRACE_RISE
        self.baseline = Baseline(settings.window_steps, settings.level_steps, settings.min_history_steps, log_space=self._norm)
        self.holding = Holding(hold, calm_steps=max(hold.steps, settings.level_steps), rows_min=NORM_ROWS if self._norm else 1)
        self.begin(0)

    def begin(self, attempt: int, quiet_until: int = 0) -> None:
        self._attempt = attempt
        self.quiet_until = quiet_until
        self.baseline.cut()
        self.holding.reset()
        self.pre_breach: Level | None = None
        self.score: Score | None = None
        self._recent: deque[float] = deque(maxlen=YOUNG_ROWS)
        self._first_step: int | None = None
        self._rows = 0
        self._soft: tuple[int, float] | None = None  # step and arrival of the stretch's first soft-breached sample
        self._peak: tuple[float, float] = (0.0, 0.0)  # z and value
        self._raised: tuple[int, int] = (0, 0)  # rows and steps in a row above SUSTAINED_Z of z

    @property
    def unknown(self) -> str:
        past = self.baseline.level()
        awake = past is not None and self.baseline.is_awake(past.last_step)
        return "no number in the newest row" if awake else "too little clean history, or not logged"

    def is_far(self, times: float) -> bool:
        return self.score is not None and self.score.z > times * self._z and self.score.rise > self._rise

    @property
    def is_clear(self) -> bool:
        """As far out as one row alone must be."""
        return self.is_far(SINGLE_ROW_Z)

    def seed(self, history: tuple[StepReading, ...]) -> None:
        learn_history(self.baseline, self.metric, history, self._z, self._rise)

    def step(self, reading: StepReading, covered: int, now_s: float) -> Finding | None:
        value = reading.metrics.get(self.metric)
        self.score = None
        if value is None or value - value != 0.0:
            return None
        step, young = reading.step, not self._norm and self.baseline.is_young
        score = self.score = self.baseline.judge(step, value, NEVER_Z if young else SOFT_Z)
        if young:
            if self._is_tall_for_the_young(step, value):
                self._soft = self._soft or (step, now_s)
                return self._breach(reading, value, Score(math.inf, value / max(abs(max(self._recent)), 1e-12) - 1.0), covered)
            self._recent.append(value)
            self._rows += self._rows < START_ROWS
            if score is None and self.holding.state is not State.IDLE:
                self._soft = None
                self.baseline.learn(step, value)
                return self._calm(step, covered)
        if score is None:
            self.baseline.learn(step, value)
            return None
        if score[0] <= SOFT_Z:
            self._soft, self._raised = None, (0, 0)
            if young:
                self.baseline.learn(step, value)  # else the judgement has
            return None if self.holding.state is State.IDLE else self._calm(step, covered)
        if self._soft is None:
            self._soft = (step, now_s)
        raised = score.z > self._z * SUSTAINED_Z and score.rise > self._rise
        rows, steps = self._raised = (self._raised[0] + 1, self._raised[1] + covered) if raised else (0, 0)
        second = covered > 1 and not self._norm and self.holding.state is State.PENDING
        if raised and score.z > self._z * (SECOND_ROW_Z if second else 1.0):
            return self._breach(reading, value, score, covered)
        if rows >= SUSTAINED_ROWS:
            return self._breach(reading, value, score, steps)
        if self.holding.state is State.IDLE and rows < 2:
            self.baseline.learn(step, value)
        else:
            self._refuse(step, value)
        return None

    def _is_tall_for_the_young(self, step: int, value: float) -> bool:
        if self._first_step is None:
            self._first_step = step
        starting = self._first_step <= START_STEPS and self._rows < START_ROWS
        if not self._recent or starting:
            return False
        highest = max(self._recent)
        return value - highest > YOUNG_NATS and value - highest > YOUNG_RISE * abs(highest)

    def _breach(self, reading: StepReading, value: float, score: Score, covered: int) -> Finding | None:
        if self.holding.state is State.IDLE:
            self.pre_breach = self.baseline.level()
            self._peak = (0.0, 0.0)
        if score.z > self._peak[0]:
            self._peak = (score.z, value)
        clear = self._norm or max(self.holding.rows + 1, self._raised[0] // 2) > 1 or score.z > self._z * SINGLE_ROW_Z
        tall = reading.step > self.quiet_until or score.rise > self._grace_rise
        change = self.holding.breach(covered, reading.time_s, convincing=clear and tall)
        finding = self._finding(reading.step, self._severity, "") if change is Change.FIRED else None
        self._onset = self._soft or (reading.step, 0.0)
        self._refuse(reading.step, value)
        return finding

    def confirm(self, step: int) -> Finding | None:
        """Another stream agrees in the very row: what is pending need not wait for its hold."""
        if self.holding.state is not State.PENDING:
            return None
        self.holding.state = State.FIRING
        return self._finding(step, self._severity, ", and the gradient norm agrees")

    def _refuse(self, step: int, value: float) -> None:
        if self.baseline.refuse(step, value):
            self.holding.reset()
            self._recent.clear()
            self._soft = None

    def _calm(self, step: int, covered: int) -> Finding | None:
        if self.holding.clean(covered) is Change.ENDED:
            return self._finding(step, "info", ", and back before the hold: a hard batch")
        return None

    def _finding(self, step: int, severity: Severity, tail: str) -> Finding:
        onset, visible_s = self._soft if self._soft is not None else self._onset
        z, value = self._peak
        band = self.pre_breach
        level = band.median if band is not None else self._recent[-1] if self._recent else None
        how = f"z {z:.1f} over {self._z:g}" if z < math.inf else "too early for a z"
        reason = f"{self.metric} {value:.4g} against a level of {level or 0.0:.4g}, {how}{tail}"
        return Finding(
            Kind.SPIKE, severity, self._attempt, onset, step, visible_s, reason,
            metric=self.metric, value=value, baseline=level,
        )  # fmt: skip
