"""Hard rows that return: data of another kind, met again at each turn of a fixed order, or mixed into the rest.

A hump is a stretch of rows that stood above the band and came down by itself. Once humps have come at `GAPS_MIN` equal distances,
the next one at that distance is the same again, as long as it is neither longer nor higher by half than the highest and the
longest of them. The first ones of a rhythm are like any other rise, and so are all that are more than `GAP_ROWS_MAX` rows apart:
what comes so seldom tires nobody, and a model that breaks at each of a few turns is not well. Distances are compared in steps, so
that it holds at any logging interval. Where hard rows are mixed in, they come without a rhythm and often: behind `MIXED_MIN`
humps within `MIXED_ROWS` rows, the next one that is no longer and no higher is one more. Sentinel's own rules; figures in the
detectors' LOG.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

GAPS_MIN = 2
GAP_ROWS_MAX = 10_000  # false alarms are counted per ten thousand rows
ALIKE = 0.1  # of the distance: what a shuffle within the data, or a logging interval, moves a hump by
TIMES = 1.5
MIXED_MIN, MIXED_ROWS = 8, 300


class Hump(NamedTuple):
    """`height`: above the level it left, in the units of the metric."""

    start: int
    rows: int
    height: float


class HardRows:
    """Fed with every hump that is over."""

    __slots__ = ("_humps",)

    def __init__(self) -> None:
        self._humps: deque[Hump] = deque(maxlen=MIXED_MIN)

    def begin(self) -> None:
        self._humps.clear()

    def take(self, hump: Hump) -> None:
        self._humps.append(hump)

    def knows(self, hump: Hump, row_steps: int) -> bool:
        """Whether a hump, as far as it has come, is one more of a rhythm or a mixture. `row_steps`: from one row to the next."""
        humps = self._humps
        if len(humps) <= GAPS_MIN:
            return False
        recent = list(humps)[-GAPS_MIN - 1 :]
        gaps = [later.start - earlier.start for earlier, later in pairwise((*recent, hump))]
        usual = sorted(gaps[:-1])[GAPS_MIN // 2]
        if usual <= GAP_ROWS_MAX * row_steps and all(abs(gap - usual) <= ALIKE * usual for gap in gaps):
            return _is_like(hump, recent)
        return len(humps) == MIXED_MIN and hump.start - humps[0].start <= MIXED_ROWS * row_steps and _is_like(hump, humps)


def _is_like(hump: Hump, others: Collection[Hump]) -> bool:
    longest, highest = max(one.rows for one in others), max(one.height for one in others)
    return hump.rows <= math.ceil(TIMES * longest) and hump.height <= TIMES * highest
