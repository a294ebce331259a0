"""The slow numeric detectors as one: fed, cut and asked together, each switched off on its own."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.divergence import Divergence
from sentinel.detectors.drift import Drift
from sentinel.detectors.generalisation import Generalisation
from sentinel.detectors.loss_scale import LossScale
from sentinel.detectors.plateau import Plateau
from sentinel.detectors.precursor import Precursor
from sentinel.detectors.too_good import TooGood
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import StepReading
from sentinel.streams.blocks import Blocks

HUSH_ROWS = 60  # the three groups of samples a climb is made of
LOSS_BLOCKS = 24


class Slow:
    """Order is the order of their findings within one step: causes before symptoms. A firing spike inhibits what follows from it:
    drift until its rows have left the level, divergence while it fires. What lasts longer is found then. Detectors of the loss
    whose memory is the same share one, and are called when it has a new block."""

    def __init__(self, settings: DetectorSettings, severity: Callable[[Kind], Severity]) -> None:
        self._loss = Blocks(LOSS_BLOCKS)
        self._loss_scale = LossScale(settings.loss_scale, severity(Kind.LOSS_SCALE_COLLAPSE))
        self._drift = Drift(settings.drift, severity(Kind.DRIFT))
        self._divergence = Divergence(settings.divergence, severity(Kind.DIVERGENCE))
        self._too_good = TooGood(settings.too_good, severity(Kind.TOO_GOOD), self._loss)
        self._plateau = Plateau(settings.plateau, self._loss)
        self._generalisation = Generalisation(settings.generalisation, self._loss)
        self._precursor = Precursor(settings.precursor)
        self._calm_rows = HUSH_ROWS
        self._attempt, self.quiet_until = 0, 0
        telling = (self._plateau, self._generalisation, self._precursor)
        self.all = (self._loss_scale, self._drift, self._divergence, self._too_good, *telling)

    def begin(self, attempt: int, quiet_until: int) -> None:
        self._attempt, self.quiet_until = attempt, quiet_until
        self._calm_rows = HUSH_ROWS
        self._loss.clear()
        for graced in (self._drift, self._divergence, self._too_good):
            graced.begin(attempt, quiet_until=quiet_until)
        for detector in (self._loss_scale, self._plateau, self._generalisation, self._precursor):
            detector.begin(attempt)

    def cut(self, quiet_until: int) -> None:
        """The learning rate rose: what drift and divergence call the lowest and the best level is of the old rate."""
        self.quiet_until = quiet_until
        for graced in (self._drift, self._divergence):
            graced.begin(self._attempt, quiet_until=quiet_until)

    def seed(self, history: tuple[StepReading, ...], resume_step: int) -> None:
        """Learn the surviving past, without findings."""
        self._loss_scale.seed(history, resume_step)
        self._drift.seed(history)
        self._divergence.seed(history)
        for reading in history:
            self._tell(reading, 0.0)

    def step(self, reading: StepReading, now_s: float, *, spiking: bool) -> list[Finding]:
        self._calm_rows = 0 if spiking else self._calm_rows + 1
        found = self._drift.step(reading, now_s, hushed=self._calm_rows < HUSH_ROWS)
        found += self._divergence.step(reading, now_s, hushed=spiking)
        found += self._tell(reading, now_s)
        metrics = reading.metrics
        if "loss_scale" in metrics or "overflow" in metrics:
            found[:0] = self._loss_scale.step(reading, now_s)
        return found

    def still_falling(self) -> str:
        """Why a collapse of the loss scale is not over; empty when it is."""
        return self._loss_scale.still_falling()

    def _tell(self, reading: StepReading, now_s: float) -> list[Finding]:
        found: list[Finding] = []
        metrics = reading.metrics
        loss = metrics.get("loss")
        if loss is not None and loss - loss == 0.0 and self._loss.push(reading.step, loss):
            found += self._too_good.step(reading, now_s)
            found += self._plateau.step(reading, now_s)
        if "val_loss" in metrics:
            found += self._generalisation.step(reading, now_s)
        if not self._precursor.metrics.isdisjoint(metrics):
            found += self._precursor.step(reading, now_s)
        return found
