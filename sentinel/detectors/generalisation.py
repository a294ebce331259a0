"""generalisation: the validation loss rises while the training loss goes on falling. Info: a person may want to know.

Sees: `evals_in_a_row` validation losses in a row, each above the best by `relative`, while the training level (median of 20
samples) is below what it was at the best. Does not see: runs without `val_loss`, a single bad evaluation, and both rising
together (that is divergence). Source: the ordinary definition of overfitting; Sentinel's own constants, no labelled runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading

METRIC = "val_loss"
TRAINED = "loss"
LEVEL_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class GeneralisationSettings:
    """Validation loss rises while training loss falls: recorded as info."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    relative: float = setting(0.01, "fraction", "Share above the best validation loss.")
    evals_in_a_row: int = setting(3, "count", "So many evaluations in a row.")


class Generalisation(Detector):
    kind = Kind.GENERALISATION

    reads = frozenset({METRIC})

    def __init__(self, settings: GeneralisationSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._blocks = run.loss_blocks
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._best: float | None = None
        self._best_step = 0
        self._level_then: float | None = None
        self._worse = 0
        self._judged = False
        self._since: tuple[int, float] = (0, 0.0)

    def learn(self, reading: StepReading) -> None:
        self.step(reading, 1, 0.0)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        value = reading.metrics.get(METRIC)
        if value is None or value - value != 0.0:
            return []
        level = self._blocks.middle(LEVEL_BLOCKS) if self._blocks.count >= LEVEL_BLOCKS else None
        if self._best is None or value < self._best:
            self._judged = level is not None and self._level_then is not None
            self._best, self._best_step, self._level_then, self._worse = value, reading.step, level, 0
            return []
        then = self._level_then
        self._judged = self._judged or (level is not None and then is not None)
        if level is None or then is None or level >= then or value <= self._best + self._settings.relative * abs(self._best):
            self._worse = 0
            return []
        if self._worse == 0:
            self._since = (reading.step, now_s)
        self._worse += 1
        if self._worse != self._settings.evals_in_a_row:
            return []
        onset, visible_s = self._since
        reason = (
            f"{METRIC} rose from {self._best:.4g} at step {self._best_step} to {value:.4g}, "
            f"while {TRAINED} fell from {then:.4g} to {level:.4g}"
        )
        found = Finding(
            Kind.GENERALISATION, "info", self._attempt, onset, reading.step, visible_s, reason,
            metric=METRIC, value=value, baseline=self._best,
        )  # fmt: skip
        return [found]

    def verdict(self) -> tuple[Verdict, str]:
        if self._best is None:
            return Verdict.UNKNOWN, f"no {METRIC} is logged"
        if not self._judged:
            return Verdict.UNKNOWN, f"too few values of {METRIC}, or too little of {TRAINED} beside them"
        breached = self._worse >= self._settings.evals_in_a_row
        return (Verdict.BREACHED if breached else Verdict.HEALTHY), f"best {METRIC} {self._best:.4g} at step {self._best_step}"
