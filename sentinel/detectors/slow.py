"""The slow numeric detectors as one: fed, cut and asked together, each switched off on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.divergence import Divergence
from sentinel.detectors.drift import Drift, Slope
from sentinel.detectors.generalisation import Generalisation
from sentinel.detectors.loss_scale import LossScale
from sentinel.detectors.plateau import Plateau
from sentinel.detectors.precursor import Precursor
from sentinel.detectors.too_good import TooGood
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import StepReading
from sentinel.streams.blocks import Block, Blocks, Fives

HUSH_ROWS = 60  # the three groups of samples a climb is made of
LOSS_BLOCKS = 24
LOSS = "loss"


class _Feed(NamedTuple):
    """One metric, made into blocks once for all that read them."""

    metric: str
    fives: Fives
    slopes: tuple[Slope, ...]
    is_loss: bool


class Slow:
    """Order is the order of their findings within one step: causes before symptoms. A firing spike inhibits what follows from it:
    drift until its rows have left the level, divergence while it fires. What lasts longer is found then. A row costs one sample
    put into a block for each metric; the detectors are called when a block is complete."""

    def __init__(self, settings: DetectorSettings, severity: Callable[[Kind], Severity]) -> None:
        self._loss = Blocks(LOSS_BLOCKS)
        self._loss_scale = LossScale(settings.loss_scale, severity(Kind.LOSS_SCALE_COLLAPSE))
        self._drift = Drift(settings.drift, severity(Kind.DRIFT))
        self._divergence = Divergence(settings.divergence, severity(Kind.DIVERGENCE))
        self._too_good = TooGood(settings.too_good, severity(Kind.TOO_GOOD), self._loss)
        self._plateau = Plateau(settings.plateau, self._loss)
        self._generalisation = Generalisation(settings.generalisation, self._loss)
        self._precursor = Precursor(settings.precursor)
        self._feeds = tuple(self._feed(name) for name in dict.fromkeys((LOSS, *(s.metric for s in self._drift.slopes))))
        self._rare = {"val_loss", *self._precursor.metrics}
        self._calm_rows = HUSH_ROWS
        self._attempt, self.quiet_until = 0, 0
        telling = (self._plateau, self._generalisation, self._precursor)
        self.all = (self._loss_scale, self._drift, self._divergence, self._too_good, *telling)

    @property
    def creeping(self) -> tuple[str, int] | None:
        """A norm that climbs slowly now, and since when."""
        return self._drift.creeping

    def _feed(self, metric: str) -> _Feed:
        slopes = tuple(slope for slope in self._drift.slopes if slope.metric == metric)
        return _Feed(metric, Fives(log_space=any(slope.is_norm for slope in slopes)), slopes, metric == LOSS)

    def begin(self, attempt: int, quiet_until: int) -> None:
        self._attempt, self.quiet_until = attempt, quiet_until
        self._calm_rows = HUSH_ROWS
        self._loss.clear()
        for feed in self._feeds:
            feed.fives.clear()
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
        for reading in history:
            for feed in self._feeds:
                value = reading.metrics.get(feed.metric)
                block = feed.fives.take(reading.step, value) if value is not None else None
                if block is None:
                    continue
                for slope in feed.slopes:
                    self._drift.seed(slope, block)
                if feed.is_loss:
                    self._divergence.seed(block)
                    self._tell_block(block, reading, 0.0)
            self._tell_row(reading, 0.0)

    def step(self, reading: StepReading, now_s: float, *, spiking: bool) -> list[Finding]:
        self._calm_rows = 0 if spiking else self._calm_rows + 1
        found: list[Finding] = []
        metrics = reading.metrics
        for metric, fives, slopes, is_loss in self._feeds:
            if metric not in metrics:
                continue
            block = fives.take(reading.step, metrics[metric])
            if block is None:
                continue
            for slope in slopes:
                found += self._drift.step(slope, block, now_s, hushed=self._calm_rows < HUSH_ROWS)
            if is_loss:
                found += self._divergence.step(block, now_s, hushed=spiking)
                found += self._tell_block(block, reading, now_s)
        if not self._rare.isdisjoint(metrics):
            found += self._tell_row(reading, now_s)
        if "loss_scale" in metrics or "overflow" in metrics:
            found[:0] = self._loss_scale.step(reading, now_s)
        return found

    def still_falling(self) -> str:
        """Why a collapse of the loss scale is not over; empty when it is."""
        return self._loss_scale.still_falling()

    def _tell_block(self, block: Block, reading: StepReading, now_s: float) -> list[Finding]:
        self._loss.add(block)
        return [*self._too_good.step(reading, now_s), *self._plateau.step(reading, now_s)]

    def _tell_row(self, reading: StepReading, now_s: float) -> Iterable[Finding]:
        found: Iterable[Finding] = ()
        metrics = reading.metrics
        if "val_loss" in metrics:
            found = self._generalisation.step(reading, now_s)
        if not self._precursor.metrics.isdisjoint(metrics):
            found = [*found, *self._precursor.step(reading, now_s)]
        return found
