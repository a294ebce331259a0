"""non_finite: NaN or infinity in what the trainer reports. Judged before anything else, and certain at once: no hold.

Alarm at once: a loss, a parameter, moment or update norm that is no number, or a gradient that is none while its update was
*applied* (neither `skipped` nor `overflow`). Info: one gated gradient (`skipped: 1`), any other metric, and a metric that
was in every row and disappears while the rows go on (Megatron omits a field that is NaN). Alarm again:
`gated_in_a_row` gated gradients in a row, or `UNAPPLIED` updates left out for whatever reason, under the metric `skipped`; and
as many iterations with a NaN loss as `gated_in_a_row`, under `nan_iterations` (Megatron counts them, skips their updates and
leaves the loss out). Both counts run over rows, and good iterations wear them down only slowly (`update_counts.py`).
A loss that stays away is a finding of its own kind, and a warning (`loss_missing.py`), unless one of these alarms already.
`overflow: 1` with a non-finite gradient is fp16 looking for its loss scale, no finding.

One finding per metric and episode; an episode ends after `CALM_ROWS` rows without the fault. Until then it has not healed,
whatever the loss says: rows without a NaN may lie within the band while every other one is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.loss_missing import KIND as LOSS_MISSING
from sentinel.detectors.loss_missing import LossWatch
from sentinel.detectors.presence import NAMES_MAX, Presence
from sentinel.detectors.settings import setting
from sentinel.detectors.update_counts import Worn
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.metrics import is_state
from sentinel.model.readings import StepReading

CALM_ROWS = 20
NAN_ITERATIONS = "nan_iterations"
SKIPPED, SKIPPED_ITERATIONS = "skipped", "skipped_iterations"
COUNT_MAX = 1e9
NAMED_MAX = 3
NANS_WORN = 0.2  # bad iterations that a good one takes back: more than one NaN among six is no run that heals by itself
UNAPPLIED = 50  # more than fp16 leaves out in a row while it searches its first scale: 2^32 is halved 32 times at most
UNAPPLIED_WORN = 1.0


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
        self._nans = Worn(self._gated_max, NANS_WORN)
        self._unapplied = Worn(UNAPPLIED, UNAPPLIED_WORN)
        self._bad_step: int | None = None  # of the newest row in which an alarm's fault was seen
        self._good_step: int | None = None  # of the first row behind it
        self._presence = Presence()
        self._loss = LossWatch()
        self._now: str = ""
        self._run.damaged_since = None

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        """Findings of one row. The usual row costs one sum, finite only when every part is, and one look at its names."""
        self._row += 1
        found: list[Finding] = []
        metrics, presence = reading.metrics, self._presence
        total = sum(metrics.values())
        if total - total != 0.0:
            found = self._judge(reading, now_s)
        else:
            self._gated_rows = 0
            self._now = ""
        if self._nans.left or NAN_ITERATIONS in metrics:
            self._count_nans(found, reading, covered, now_s)
        if self._unapplied.left or SKIPPED in metrics:
            self._count_unapplied(found, reading, covered, now_s)
        if self._open:
            self._note_alarm(reading.step)
            self._close_calm()
        if metrics.keys() != presence.names or presence.gone or self._loss.since is not None:
            self._miss(found, reading, now_s)
        return found

    def complete(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        total = sum(reading.metrics.values())
        if total - total == 0.0:
            return []
        found = self._judge(reading, now_s)
        self._note_alarm(reading.step)
        return found

    def _miss(self, found: list[Finding], reading: StepReading, now_s: float) -> None:
        """What has stayed away for long enough."""
        gone = self._presence.missing(self._row, reading, now_s)
        if gone is not None:
            name, onset, visible_s = gone
            why = f"{name} was in every row and is missing since step {onset} while others go on"
            found.append(Finding(Kind.NON_FINITE, "info", self._attempt, onset, reading.step, visible_s, why, metric=name))
        stays_away = self._loss.missing(self._row, reading, now_s)
        if stays_away is not None and not self._alarms():
            onset, visible_s = stays_away
            found.append(self._no_loss(reading, onset, visible_s))

    def _no_loss(self, reading: StepReading, onset: int, visible_s: float) -> Finding:
        why = (
            f"the loss was in every row and is missing since step {onset}, while training goes on: it may be NaN and left out, "
            "or no longer logged; nothing is judged by it until it is back"
        )
        severity = self._run.severity(LOSS_MISSING)
        return Finding(LOSS_MISSING, severity, self._attempt, onset, reading.step, visible_s, why, metric="loss")

    def _judge(self, reading: StepReading, now_s: float) -> list[Finding]:
        metrics = reading.metrics
        bad = sorted(name for name, value in metrics.items() if value - value != 0.0)
        overflow, skipped = metrics.get("overflow") == 1, metrics.get(SKIPPED) == 1
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
            self._open_episode(found, reading, now_s, SKIPPED, True, why)

    def _count_nans(self, found: list[Finding], reading: StepReading, covered: int, now_s: float) -> None:
        """Iterations whose loss was NaN, as the trainer counts them over the steps of a row."""
        nans, bad = self._nans, _count(reading.metrics.get(NAN_ITERATIONS, 0.0))
        if nans.add(reading.step, bad, covered, now_s):
            why = f"{nans.bad} iterations with a NaN loss since step {nans.since_step}"
            self._open_episode(found, reading, now_s, NAN_ITERATIONS, True, why, nans)
            self._now = self._now or f"{NAN_ITERATIONS} is {bad}"

    def _count_unapplied(self, found: list[Finding], reading: StepReading, covered: int, now_s: float) -> None:
        """Updates that were left out, for whatever reason. Where a row of several steps only says `skipped`, one is known of."""
        metrics = reading.metrics
        unapplied, bad = self._unapplied, _count(metrics.get(SKIPPED_ITERATIONS, metrics.get(SKIPPED, 0.0)))
        is_known = any(alarm and name != SKIPPED for name, alarm in self._open)  # left out because of what alarms already
        if unapplied.add(reading.step, bad, covered, now_s) and not is_known:
            why = f"{unapplied.bad} updates were left out since step {unapplied.since_step}: the weights stand still"
            self._open_episode(found, reading, now_s, SKIPPED, True, why, unapplied)
            self._now = self._now or f"{unapplied.bad} updates were left out"

    def _open_episode(
        self, found: list[Finding], reading: StepReading, now_s: float, metric: str, alarm: bool, reason: str,
        counted: Worn | None = None,
    ) -> None:
        key = (metric, alarm)
        known = key in self._open
        if len(self._open) < NAMES_MAX or known:
            self._open[key] = self._row
        if known:
            return
        onset, visible_s = reading.step, now_s
        value = reading.metrics.get(metric, 0.0)
        if counted is not None:
            onset, visible_s, value = counted.since_step, counted.since_s, float(counted.bad)
        elif metric == SKIPPED:
            (onset, visible_s), value = self._gated_since, float(self._gated_rows)
        if alarm and self._run.damaged_since is None:
            self._run.damaged_since = onset
        severity: Severity = self._severity if alarm else "info"
        found.append(
            Finding(Kind.NON_FINITE, severity, self._attempt, onset, reading.step, visible_s, reason, metric=metric, value=value)
        )

    def _close_calm(self) -> None:
        for key in [key for key, row in self._open.items() if self._row - row >= CALM_ROWS]:
            del self._open[key]
        if not self._alarms():
            self._run.damaged_since = None

    def _note_alarm(self, step: int) -> None:
        if any(alarm and row == self._row for (_, alarm), row in self._open.items()):
            self._bad_step, self._good_step = step, None
        elif self._good_step is None and self._alarms():
            self._good_step = step

    def still_true(self, alert: str) -> str:
        """Why an alarm is not over: its fault was seen in one of the last CALM_ROWS rows."""
        if not self._alarms():
            return ""
        names = ", ".join(sorted(name for name, alarm in self._open if alarm)[:NAMED_MAX])
        return f"not over: {names} at step {self._bad_step}, and not {CALM_ROWS} rows without it since"

    def good_since(self) -> int | None:
        return self._good_step

    def over(self, kind: Kind, metric: str, now_s: float) -> str:
        return self._loss.back(self._row) if kind is LOSS_MISSING else ""

    def _alarms(self) -> bool:
        return any(alarm for _, alarm in self._open)

    def verdict(self) -> tuple[Verdict, str]:
        if self._row == 0:
            return Verdict.UNKNOWN, "no step read yet"
        if self._presence.is_empty:
            return Verdict.UNKNOWN, "the newest row holds no values"
        return (Verdict.BREACHED, self._now) if self._now else (Verdict.HEALTHY, "every value is a number")


def _count(value: float) -> int:
    """A number of iterations; 0 for what is none."""
    return int(value) if 1.0 <= value < COUNT_MAX else 0
