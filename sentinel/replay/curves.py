"""Curves for drawing, in bounded memory whatever the length: lowest and highest value of neighbouring steps.

When a curve is full, neighbours are put together two by two, so a spike of one step is still as high in the picture.
"""

from __future__ import annotations

from sentinel.model.readings import StepReading

Bucket = tuple[int, float, float]
"""First step, lowest and highest finite value."""

METRICS = ("loss", "grad_norm")
BUCKETS_MAX = 2048


class Curves:
    """Attributes: buckets: by metric, in the order of the log."""

    def __init__(self) -> None:
        self.buckets: dict[str, list[Bucket]] = {name: [] for name in METRICS}
        self._width = dict.fromkeys(METRICS, 1)
        self._filled = dict.fromkeys(METRICS, 0)  # rows in the newest bucket

    def add(self, reading: StepReading) -> None:
        for name in METRICS:
            value = reading.metrics.get(name)
            if value is None or value - value != 0.0:
                continue
            buckets = self.buckets[name]
            if self._filled[name] % self._width[name] == 0:
                if len(buckets) >= 2 * BUCKETS_MAX:
                    self._halve(name)
                buckets = self.buckets[name]
                buckets.append((reading.step, value, value))
                self._filled[name] = 1
                continue
            step, low, high = buckets[-1]
            buckets[-1] = (step, min(low, value), max(high, value))
            self._filled[name] += 1

    def _halve(self, name: str) -> None:
        old = self.buckets[name]
        pairs = zip(old[::2], old[1::2], strict=False)
        self.buckets[name] = [(a[0], min(a[1], b[1]), max(a[2], b[2])) for a, b in pairs]
        self._width[name] *= 2
