"""The whole past of one metric in a bounded memory: at most BUCKETS_MAX buckets, of equally many blocks each.

A bucket begins as one block of five samples. When the memory is full, neighbours are merged in pairs and every later bucket takes
twice as many blocks. So a run of any length and any logging interval fits, the newest half of it lies in 16 to 32 buckets,
and most rows cost nothing: a reader judges when a bucket is complete.

Late in a long run such a bucket is thousands of steps wide. `RecentHistory` keeps the newest RECENT_MAX buckets of one
width, which never grows.
"""

from __future__ import annotations

from typing import NamedTuple

BUCKETS_MAX = 64
RECENT_MAX = 32


class Bucket(NamedTuple):
    """Steps first_step..last_step: the mean of the medians of their blocks; the learning rate at their end, None where none is
    logged; and when the last of them was read."""

    first_step: int
    last_step: int
    middle: float
    rate: float | None
    seen_s: float

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1


class LongHistory:
    """Buckets, oldest first. `width`: blocks that a bucket stands for."""

    __slots__ = ("_blocks", "_first_step", "_sum", "buckets", "width")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.buckets: list[Bucket] = []
        self.width = 1
        self._blocks, self._sum, self._first_step = 0, 0.0, 0

    def add(self, first_step: int, last_step: int, middle: float, rate: float | None, seen_s: float) -> bool:
        """Take a block in; True when it completed a bucket."""
        if not self._blocks:
            self._first_step, self._sum = first_step, 0.0
        self._blocks += 1
        self._sum += middle
        if self._blocks < self.width:
            return False
        self.buckets.append(Bucket(self._first_step, last_step, self._sum / self._blocks, rate, seen_s))
        self._blocks = 0
        self._bound()
        return True

    def _bound(self) -> None:
        if len(self.buckets) == BUCKETS_MAX:
            pairs = zip(self.buckets[::2], self.buckets[1::2], strict=True)
            self.buckets = [
                Bucket(old.first_step, new.last_step, 0.5 * (old.middle + new.middle), new.rate, new.seen_s) for old, new in pairs
            ]
            self.width *= 2


class RecentHistory(LongHistory):
    """The newest buckets of `width` blocks each, or of `width` buckets of a finer history."""

    __slots__ = ("_width",)

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__()

    def clear(self) -> None:
        super().clear()
        self.width = self._width

    def _bound(self) -> None:
        if len(self.buckets) > RECENT_MAX:
            del self.buckets[0]
