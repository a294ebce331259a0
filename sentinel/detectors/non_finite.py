"""non_finite: NaN or infinity in what the trainer reports. Judged before anything else, and certain at once: no hold.

Alarm at once: a loss, a parameter, moment or update norm that is no number, or a gradient that is none while its update was
*applied* (neither `skipped` nor `overflow`). Info: one gated gradient (`skipped: 1`), any other metric, and a metric that
was in every row and disappears while the rows go on (Megatron omits a field that is NaN). Alarm again:
`gated_in_a_row` gated gradients in a row, under the metric `skipped`; and as many iterations with a NaN loss, of one row or of
rows one after the other, under `nan_iterations` (Megatron counts them, skips their updates and leaves the loss out).
`overflow: 1` with a non-finite gradient is fp16 looking for its loss scale, no finding.

One finding per metric and episode; an episode ends after `CALM_ROWS` rows without the fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.metrics import is_state
from sentinel.model.readings import StepReading

CALM_ROWS = 20
REGULAR_ROWS = 20
MISSING_ROWS = 5
NAMES_MAX = 512
NAN_ITERATIONS = "nan_iterations"
COUNT_MAX = 1e9


@dataclass(frozen=True, slots=True)
class NonFiniteSettings:
    """NaN or infinity in a loss, parameter or moment is certain at once; a gated gradient only when it keeps coming."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    gated_in_a_row: int = setting(
        5, "count", "So many skipped updates with a non-finite gradient in a row are an alarm; fewer are recorded as info."
    )


def is_gradient(metric: str) -> bool:
    return metric == "grad_norm" or metric.startswith("grad_norm/")


class NonFinite(Detector):
    """Every metric of every row."""

    kind = Kind.NON_FINITE

    def __init__(self, settings: NonFiniteSettings, run: WatchedRun) -> None:
        self._gated_max = settings.gated_in_a_row
        self._severity = run.severity(Kind.NON_FINITE)
        self._run = run
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._row = 0
        self._open: dict[tuple[str, bool], int] = {}  # (metric, alarm) -> row last seen non-finite
        self._gated_rows = 0
        self._gated_since = (0, 0.0)
        self._nans = 0
        self._nans_since = (0, 0.0)
        self._presence = Presence()
        self._now: str = ""
        self._run.damaged_since = None

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        """Findings of one row. The usual row costs one sum: a sum is finite only when every part is."""
        self._row += 1
        found: list[Finding] = []
        total = sum(reading.metrics.values())
        if total - total != 0.0:
            found = self._judge(reading, now_s)
        else:
            self._gated_rows = 0
            self._now = ""
        if self._nans or NAN_ITERATIONS in reading.metrics:
            self._count_nans(found, reading, covered, now_s)
        if self._open:
            self._close_calm()
        gone = self._presence.missing(reading, now_s)
        if gone is not None:
            name, onset, visible_s = gone
            why = f"{name} was in every row and is missing since step {onset} while others go on"
            found.append(Finding(Kind.NON_FINITE, "info", self._attempt, onset, reading.step, visible_s, why, metric=name))
        return found

    def _judge(self, reading: StepReading, now_s: float) -> list[Finding]:
        metrics = reading.metrics
        bad = sorted(name for name, value in metrics.items() if value - value != 0.0)
        overflow, skipped = metrics.get("overflow") == 1, metrics.get("skipped") == 1
        found: list[Finding] = []
        gradient: str | None = None
        alarmed = ""
        for name in bad:
            if is_gradient(name):
                gradient = gradient or name
                continue
            if name == "update_norm" and (overflow or skipped):
                continue  # the update that was not applied
            alarm = is_state(name)
            alarmed = alarmed or (name if alarm else "")
            self._open_episode(found, reading, now_s, name, alarm, f"{name} is {metrics[name]} at step {reading.step}")
        gated = gradient is not None and (overflow or skipped)
        if gradient is not None and not gated:
            alarmed = alarmed or gradient
            why = f"{gradient} is {metrics[gradient]} at step {reading.step} and the update was applied"
            self._open_episode(found, reading, now_s, gradient, True, why)
        if gradient is not None and skipped and not overflow:
            self._gate(found, reading, now_s, gradient)
        else:
            self._gated_rows = 0
        self._now = f"{alarmed} is not a number" if alarmed else ""
        return found

    def _gate(self, found: list[Finding], reading: StepReading, now_s: float, gradient: str) -> None:
        if self._gated_rows == 0:
            self._gated_since = (reading.step, now_s)
        self._gated_rows += 1
        why = f"{gradient} is {reading.metrics[gradient]} at step {reading.step}; the update was gated"
        self._open_episode(found, reading, now_s, gradient, False, why)
        if self._gated_rows >= self._gated_max:
            why = f"{self._gated_rows} gated non-finite gradients in a row since step {self._gated_since[0]}"
            self._open_episode(found, reading, now_s, "skipped", True, why)

    def _count_nans(self, found: list[Finding], reading: StepReading, covered: int, now_s: float) -> None:
        """Iterations whose loss was NaN, as the trainer counts them over the steps of a row."""
        count = reading.metrics.get(NAN_ITERATIONS, 0.0)
        if not 1.0 <= count < COUNT_MAX:
            self._nans = 0
            return
        if self._nans == 0:
            self._nans_since = (max(1, reading.step - max(covered, 1) + 1), now_s)
        self._nans += int(count)
        if self._nans >= self._gated_max:
            why = f"{self._nans} iterations with a NaN loss in a row since step {self._nans_since[0]}"
            self._open_episode(found, reading, now_s, NAN_ITERATIONS, True, why)
            self._now = self._now or f"{NAN_ITERATIONS} is {count:g}"

    def _open_episode(
        self, found: list[Finding], reading: StepReading, now_s: float, metric: str, alarm: bool, reason: str
    ) -> None:
        key = (metric, alarm)
        known = key in self._open
        if len(self._open) < NAMES_MAX or known:
            self._open[key] = self._row
        if known:
            return
        onset, visible_s = reading.step, now_s
        value = reading.metrics.get(metric, 0.0)
        if metric == "skipped":
            (onset, visible_s), value = self._gated_since, float(self._gated_rows)
        elif metric == NAN_ITERATIONS and alarm:
            (onset, visible_s), value = self._nans_since, float(self._nans)
        if alarm and self._run.damaged_since is None:
            self._run.damaged_since = onset
        severity: Severity = self._severity if alarm else "info"
        found.append(
            Finding(Kind.NON_FINITE, severity, self._attempt, onset, reading.step, visible_s, reason, metric=metric, value=value)
        )

    def _close_calm(self) -> None:
        for key in [key for key, row in self._open.items() if self._row - row >= CALM_ROWS]:
            del self._open[key]
        if not any(alarm for _, alarm in self._open):
            self._run.damaged_since = None

    def verdict(self) -> tuple[Verdict, str]:
        if self._row == 0:
            return Verdict.UNKNOWN, "no step read yet"
        if self._presence.is_empty:
            return Verdict.UNKNOWN, "the newest row holds no values"
        return (Verdict.BREACHED, self._now) if self._now else (Verdict.HEALTHY, "every value is a number")


class Presence:
    """Which metrics come with every row, and which of them stopped coming."""

    def __init__(self) -> None:
        self._row = 0
        self._since: dict[str, int] = {}  # name -> first row of its unbroken presence
        self._gone: dict[str, tuple[int, int, float]] = {}  # name -> row, step and arrival of the first row without it

    @property
    def is_empty(self) -> bool:
        """Did the newest row hold nothing?"""
        return not self._since

    def missing(self, reading: StepReading, now_s: float) -> tuple[str, int, float] | None:
        """A metric (at most one a row) missing for `MISSING_ROWS` rows after `REGULAR_ROWS` of presence, and since when."""
        self._row += 1
        names = reading.metrics.keys()
        if names != self._since.keys():
            self._note_change(reading, now_s)
        if not self._gone:
            return None
        for name in [name for name in self._gone if name in names]:
            del self._gone[name]
        for name, (row, step, seen_s) in self._gone.items():
            if self._row - row + 1 >= MISSING_ROWS:
                del self._gone[name]
                return name, step, seen_s
        return None

    def _note_change(self, reading: StepReading, now_s: float) -> None:
        for name in [name for name in self._since if name not in reading.metrics]:
            if self._row - self._since.pop(name) >= REGULAR_ROWS:
                self._gone[name] = (self._row, reading.step, now_s)
        for name in reading.metrics:
            if name not in self._since and len(self._since) < NAMES_MAX:
                self._since[name] = self._row
