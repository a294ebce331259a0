"""What is judged row by row: every detector of the stream's numbers, and the windows they share, as one.

Order of a row: the series decides whether it is new, pace and learning rate are noted, non-finite values are judged first,
then spikes, then what is slow, then the run it is compared with, then what the policy's own expressions say.
"""

from __future__ import annotations

from collections.abc import Callable

from sentinel.client.settings import SETTINGS
from sentinel.detectors.behind_reference import BehindReference, Reference
from sentinel.detectors.contract import Detector, DetectorSettings
from sentinel.detectors.expression import Expressions
from sentinel.detectors.hold import Hold
from sentinel.detectors.non_finite import NonFinite
from sentinel.detectors.onset import KEPT, Dated, date_onset
from sentinel.detectors.slow import Slow
from sentinel.detectors.spike import Spike
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.pace import Pace
from sentinel.streams.rate_jumps import RateJumps
from sentinel.streams.series import Series


class Numbers:
    """Attributes: `series` and `pace`, which others read; `spike`, whose watches hold the bands before a breach."""

    def __init__(
        self,
        settings: DetectorSettings,
        hold: Hold,
        severity: Callable[[Kind], Severity],
        reference: Reference | None,
        expressions: Expressions | None,
    ) -> None:
        self.series = Series(dict.fromkeys((*settings.spike.metrics, *settings.drift.metrics, *KEPT)))
        self.pace = Pace()
        self.spike = Spike(settings.spike, hold, severity(Kind.SPIKE))
        self.non_finite = NonFinite(settings.non_finite, severity(Kind.NON_FINITE))
        self._rate = RateJumps()
        self._slow = Slow(settings, severity)
        self._behind = BehindReference(settings.behind_reference, severity(Kind.BEHIND_REFERENCE), reference)
        self._compares = reference is not None
        self._expressions = expressions  # None: no rule is on an expression, and nobody pays for one
        self._grace_steps = settings.grace_steps
        self._lookback_steps = settings.onset_lookback_steps
        self._cut_step = 0
        self._attempt = 0
        self._world_size: int | None = None

    @property
    def all(self) -> tuple[Detector, ...]:
        written = () if self._expressions is None else (self._expressions,)
        return (self.non_finite, self.spike, *self._slow.all, self._behind, *written)

    @property
    def quiet_until(self) -> int:
        """The step at which the present grace ends."""
        return self._slow.quiet_until

    def begin(self, attempt: int, resume_step: int = 0) -> int:
        """Everything learned is cut, the pace excepted. Returns the step at which the grace after a resume ends."""
        quiet_until = resume_step + self._grace_steps if resume_step else 0
        self._attempt = attempt
        self._cut_step = resume_step
        self.series.begin(resume_step)
        self.pace.begin()
        self._rate.begin()
        self.non_finite.begin(attempt)
        self.spike.begin(attempt, quiet_until=quiet_until)
        self._slow.begin(attempt, quiet_until)
        if self._expressions is not None:
            self._expressions.begin(attempt, quiet_until=quiet_until)
        return quiet_until

    def seed(self, receipt: Receipt, history: tuple[StepReading, ...]) -> None:
        """Learn the surviving past, without findings. Under settings that shift the level (the table says which), the past's
        level counts less and only its newest samples are kept."""
        if self._world_size not in (None, receipt.world_size):
            self.pace.forget()
        self._world_size = receipt.world_size
        self.series.seed(history, receipt.resume_step)
        for reading in history:
            self.pace.add(reading.step, reading.time_s)
            self._rate.take(reading.step, reading.metrics.get("lr", 0.0))
        self.pace.begin()
        changed = any(row.shifts(receipt.overrides.get(key)) for key, row in SETTINGS.items())
        self.spike.seed(history, settings_changed=changed)
        self._slow.seed(history, receipt.resume_step)
        self._behind.begin(receipt.attempt, receipt.tokens_per_step)
        self._behind.seed(history)
        if self._expressions is not None:
            self._expressions.seed(receipt, history)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        """A row that is new; `covered` is how many steps it stands for."""
        self.pace.add(reading.step, reading.time_s)
        rate = reading.metrics.get("lr")
        if rate is not None:
            jump = self._rate.take(reading.step, rate)
            if jump != 1.0:
                self.cut_level(reading.step, risen=jump > 1.0)
        found = self.non_finite.step(reading, now_s)
        spikes = self.spike.step(reading, covered, now_s)
        slow = self._slow.step(reading, now_s, spiking=self.spike.is_firing)
        if self._compares:
            slow += self._behind.step(reading, now_s)
        if self._expressions is not None:
            slow += self._expressions.step(reading, covered, now_s)
        return [*found, *spikes, *slow] if found or spikes else slow

    def cut_level(self, step: int, *, risen: bool) -> None:
        """Other settings from this step on: the level may jump. A rate that rose excuses a bump and a new, higher best, as a
        resume does; after one that fell the loss can only be expected to fall, and the past stays a fair measure."""
        self._cut_step = max(self._cut_step, step - 1)
        self.spike.cut_level()
        if risen:
            self.spike.be_quiet(step + self._grace_steps)
            self._slow.cut(step + self._grace_steps)

    def still_true(self, kind: Kind, alert: str) -> str:
        """Why it cannot have healed, whatever the loss says: the condition of an alert on an expression is true now, a loss scale
        still falls. Empty when not, or not known."""
        if kind is Kind.LOSS_SCALE_COLLAPSE:
            return self._slow.still_falling()
        return "" if self._expressions is None or kind is not Kind.EXPRESSION else self._expressions.still_true(alert)

    def date_onset(self, finding: Finding) -> Dated | None:
        """Where the finding's trouble began by the earliest co-signal; None where the finding's own onset stands."""
        return date_onset(self.series, finding, self._lookback_steps, self._cut_step, self._slow.creeping)
