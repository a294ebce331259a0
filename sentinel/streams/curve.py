"""A curve for drawing, in bounded memory whatever its length: lowest and highest value of neighbouring steps.

When it is full, neighbours are put together two by two, so a spike of one step is still as high in the picture.
"""

from __future__ import annotations

Bucket = tuple[int, float, float]
"""First step, lowest and highest finite value."""

BUCKETS_MAX = 2048
NON_FINITE_KEPT = 64


class Curve:
    """Of one metric. Attributes: buckets, in the order they were added; non_finite, the newest steps whose value was no number;
    halvings, how often neighbours were put together: whoever has drawn a part must draw it anew when that changes."""

    def __init__(self, buckets_max: int = BUCKETS_MAX) -> None:
        self.buckets: list[Bucket] = []
        self.non_finite: list[int] = []
        self.halvings = 0
        self._buckets_max = buckets_max
        self._filled = 0  # values in the newest bucket

    def add(self, step: int, value: float) -> None:
        if value - value != 0.0:
            self.non_finite = [*self.non_finite[1 - NON_FINITE_KEPT :], step]
            return
        if self._filled % (1 << self.halvings) == 0:
            if len(self.buckets) >= 2 * self._buckets_max:
                self._halve()
            self.buckets.append((step, value, value))
            self._filled = 1
            return
        first, low, high = self.buckets[-1]
        self.buckets[-1] = (first, min(low, value), max(high, value))
        self._filled += 1

    def coarsen(self, buckets_max: int) -> None:
        """From now on fewer: twice as many as `buckets_max` at most."""
        self._buckets_max = buckets_max
        while len(self.buckets) > 2 * buckets_max:
            self._halve()

    def _halve(self) -> None:
        pairs = zip(self.buckets[::2], self.buckets[1::2], strict=False)
        alone = self.buckets[len(self.buckets) // 2 * 2 :]  # the newest of an odd number, which goes on being filled
        if not alone:
            self._filled += 1 << self.halvings
        self.buckets = [*((a[0], min(a[1], b[1]), max(a[2], b[2])) for a, b in pairs), *alone]
        self.halvings += 1
