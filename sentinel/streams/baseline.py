"""What is normal for one metric just now: a local level, and how far values usually stray from it.

Robust: the level is the median of the last `level_steps` steps. What is judged is a value's residual to that moving level,
against the residuals of the last `window_steps` steps: their spread (MAD), and their median where it is negative, because
a trailing median lags behind a falling loss and a spike must not be measured from up there.

Poison-proof: a value is judged before it is learned, and the caller learns it only when it was not breached. Non-finite
values never enter. Breached values are kept aside: when they last longer than the window, the run has moved for good and
the baseline is rebuilt from them, with a reason, so that a permanent benign shift does not fire for ever.

A hole in the steps, longer than the window and than ten usual intervals, cuts it too: the run went on unseen, or its logging
interval changed, and values of the old interval say nothing about the new one.

Windows count *steps*, with a minimum number of samples, because a run may log every 1, 5, 100 or 500 steps.
Source of the rule: "residual to median-20, MAD-200" had the best recall of the published kind on 475 real runs; see LOG.md
of the detectors for what was tried beside it.
"""

from __future__ import annotations

from collections import deque
from math import exp, expm1, inf, log, nan
from typing import NamedTuple

from sentinel.model.readings import StepReading
from sentinel.streams.level import Level
from sentinel.streams.rounding import rounding_half
from sentinel.streams.window import SAMPLES_MAX, Window

MAD_TO_SIGMA = 1.4826  # of gaussian noise: 1 / 0.6745
WINDOW_SAMPLES_MIN = 100
LEVEL_SAMPLES_MIN = 10
HISTORY_SAMPLES_MIN = 32
REBASE_SAMPLES_MIN = 32
CLEAN_ROWS_END_A_BREACH = 5
LEVEL_SAMPLES_AFTER_CUT = 5
HOLE_INTERVALS = 10
Z_TO_CHECK = 3.0  # below it nobody acts, and a look at the rounding would cost every row


class Score(NamedTuple):
    """How a value stands against the past. `rise` is relative to the level: 0.03 is 3 % above it."""

    z: float
    rise: float


_new_score = tuple.__new__  # a third of the time of `Score(…)`, once for each value of a run


class Baseline:
    """Level and spread of one metric. `log_space` for norms, whose noise is multiplicative.

    `is_young`: there are too few samples to trust the spread, or too few steps to judge by it. `early_rows`:
    from so many samples on a value is scored before there are enough; such a score wants wider bounds (`is_early`)."""

    __slots__ = (
        "_awake", "_clean_rows", "_early_min", "_first_step", "_history_min", "_history_steps", "_judged", "_last_step", "_level",
        "_levels", "_log_space", "_refused", "_residuals", "_spread", "_window_steps", "_young_rows", "is_young", "rebase_reason",
        "rebased",
    )  # fmt: skip

    def __init__(
        self, window_steps: int, level_steps: int, min_history_steps: int, *, log_space: bool, early_rows: int | None = None
    ) -> None:
        assert min(window_steps, level_steps) > 0, "windows are at least one step long"
        self._window_steps = window_steps
        self._history_steps = min_history_steps
        self._history_min = max(2, min(min_history_steps, HISTORY_SAMPLES_MIN))
        self._early_min = max(1, early_rows) if early_rows is not None else SAMPLES_MAX + 1
        self._log_space = log_space
        self._level = Window(level_steps, min(level_steps, LEVEL_SAMPLES_MIN))
        self._spread = Window(window_steps, min(window_steps, WINDOW_SAMPLES_MIN))
        self._levels, self._residuals = self._level.ordered, self._spread.ordered
        self._refused: deque[tuple[int, float]] = deque(maxlen=SAMPLES_MAX)
        self._young_rows = min(window_steps, WINDOW_SAMPLES_MIN)
        self.is_young = True
        self._awake = False
        self._clean_rows = 0
        self._judged: tuple[int, float, float, float] | None = None  # step, value, scaled, residual: `learn` repeats nothing
        self._first_step: int | None = None
        self._last_step = 0
        self.rebased = 0
        self.rebase_reason = ""

    def judge(self, step: int, value: float, clean_z: float = -inf) -> Score | None:
        """Score of `value` against the past, which does not contain it; None is 'unknown': too little past, or no number.

        A value with z up to `clean_z` is learned at once, as by `learn`: nearly every value of a run, and one call for it."""
        if step - self._last_step > self._window_steps and self._is_hole(step):
            self.cut()
        if not self._awake:
            if self.is_awake(step):
                self._awake = True  # until it is cut: the window never shrinks below what woke it
            elif len(self._spread) < self._early_min:
                return None
        ordered, levels = self._residuals, self._levels
        count = len(ordered)  # as `middle_and_spread`, without a call
        lag, upper = ordered[count >> 1], ordered[(3 * count) >> 2]
        spread, half = upper - lag, 0.5 * (upper - ordered[count >> 2])
        if half > spread:
            spread = half
        level = levels[len(levels) >> 1]
        if self._log_space:
            if not 0.0 < value < inf:
                return None
            scaled = log(value)
            residual = scaled - level
            rise = expm1(residual if residual < 700.0 else 700.0)
            lag = 0.0
        else:
            if value - value != 0.0:
                return None
            scaled, residual = value, value - level
            rise = residual / (level if level > 1e-12 else max(-level, 1e-12))
            lag = lag if lag < 0.0 else 0.0
        z = (residual - lag) / (MAD_TO_SIGMA * spread + 1e-12)
        if z > Z_TO_CHECK:
            spread = max(spread, rounding_half((scaled, *levels), is_log=self._log_space))
            z = (residual - lag) / (MAD_TO_SIGMA * spread + 1e-12)
        if z <= clean_z:  # as `_take_in`, without a call
            self._last_step = step
            self._spread.push(step, residual)
            self._level.push(step, scaled)
            if self.is_young or self._refused:
                self._come_of_age(step)
        else:
            self._judged = (step, value, scaled, residual)
        return _new_score(Score, (z, rise))

    @property
    def is_early(self) -> bool:
        """The newest score was one of too little past."""
        return not self._awake

    def is_awake(self, step: int) -> bool:
        """Is there enough clean past to judge by?"""
        first = self._first_step
        return first is not None and len(self._spread) >= self._history_min and step - first >= self._history_steps

    @property
    def awake_from(self) -> int | None:
        """The step from which there is enough past, if rows come as until now and are clean; None before the first."""
        if self._first_step is None:
            return None
        rows = self._history_min - len(self._spread)
        usual = -(-(self._last_step - self._first_step) // max(1, len(self._spread)))
        return max(self._first_step + self._history_steps, self._last_step + rows * usual)

    def learn(self, step: int, value: float) -> None:
        """Take in a value that was judged clean (or could not be judged yet). A value that is no number is ignored."""
        judged, self._judged = self._judged, None
        if judged is not None and judged[0] == step and judged[1] == value:  # the level has not moved since
            self._take_in(step, judged[2], judged[3])
            return
        if value - value != 0.0 or (self._log_space and value <= 0.0):
            return
        scaled = log(value) if self._log_space else value
        if self._first_step is None:
            self._first_step = step
            self._take_in(step, scaled, nan)  # there is no level yet to be away from
        else:
            self._take_in(step, scaled, scaled - self._level.median())

    def _take_in(self, step: int, scaled: float, residual: float) -> None:
        self._last_step = step
        if residual - residual == 0.0:
            self._spread.push(step, residual)
        self._level.push(step, scaled)
        if self.is_young or self._refused:
            self._come_of_age(step)

    def _come_of_age(self, step: int) -> None:
        """Rows that were taken in make a young baseline old enough, and end a breach."""
        if self.is_young:
            self.is_young = len(self._spread) < self._young_rows or not self.is_awake(step)
        if self._refused:
            self._clean_rows += 1
            if self._clean_rows >= CLEAN_ROWS_END_A_BREACH:
                self._refused.clear()

    def refuse(self, step: int, value: float) -> bool:
        """Keep a breached value out. True when the breach outlasted the window and the baseline was rebuilt from it."""
        if value - value != 0.0 or (self._log_space and value <= 0.0):
            return False
        self._last_step = step
        self._clean_rows = 0
        self._refused.append((step, value))
        first = self._refused[0][0]
        if step - first < self._window_steps or len(self._refused) < min(self._window_steps, REBASE_SAMPLES_MIN):
            return False
        self._rebase(step, first)
        return True

    def cut(self) -> None:
        """Forget everything: another attempt, another past."""
        self._level.clear()
        self._spread.clear()
        self._refused.clear()
        self._judged = None
        self._awake = False
        self.is_young = True
        self._clean_rows = 0
        self._first_step = None
        self.rebase_reason = ""

    def cut_level(self) -> None:
        """Settings changed: the level may jump, the spread need not. Judge by the newest samples, but never go blind."""
        self._judged = None
        self._level.keep_newest(LEVEL_SAMPLES_AFTER_CUT)

    def level(self) -> Level | None:
        """The band in force, in the metric's own units."""
        if not len(self._level) or not len(self._spread):
            return None
        middle, mad = self._level.median(), self._spread.middle_and_spread()[1]
        if self._log_space:
            middle = exp(min(middle, 700.0))
            mad = middle * expm1(min(mad, 700.0))
        return Level(middle, mad, len(self._spread), self._spread.first_step, self._level.last_step)

    def _is_hole(self, step: int) -> bool:
        if len(self._level) < 2:
            return False
        usual = (self._level.last_step - self._level.first_step) / (len(self._level) - 1)
        return step - self._last_step > HOLE_INTERVALS * usual

    def _rebase(self, step: int, first: int) -> None:
        rows = list(self._refused)
        self.cut()
        for row_step, value in rows:
            self.learn(row_step, value)
        self.rebased += 1
        self.rebase_reason = (
            f"breached from step {first} to {step}, longer than the window of {self._window_steps} steps: taken as the new normal"
        )


def learn_history(baseline: Baseline, metric: str, history: tuple[StepReading, ...], z_max: float, rise_max: float) -> None:
    """Seed a baseline with past readings, judged before they are learned like any other, but without findings."""
    for reading in history:
        value = reading.metrics.get(metric)
        if value is None:
            continue
        score = baseline.judge(reading.step, value)
        if score is not None and score.z > z_max and score.rise > rise_max:
            baseline.refuse(reading.step, value)
        else:
            baseline.learn(reading.step, value)
