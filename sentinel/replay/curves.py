"""What a replayed log is drawn from."""

from __future__ import annotations

from sentinel.model.readings import StepReading
from sentinel.streams.curve import Bucket, Curve

METRICS = ("loss", "grad_norm")


class Curves:
    def __init__(self) -> None:
        self._curves = {name: Curve() for name in METRICS}

    @property
    def buckets(self) -> dict[str, list[Bucket]]:
        """By metric, in the order of the log."""
        return {name: curve.buckets for name, curve in self._curves.items()}

    def add(self, reading: StepReading) -> None:
        for name, curve in self._curves.items():
            value = reading.metrics.get(name)
            if value is not None:
                curve.add(reading.step, value)
