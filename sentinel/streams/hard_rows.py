"""Hard rows that return in a rhythm: data of another kind, met again at each turn of a fixed order.

A hump is a stretch of rows that stood above the band and came down by itself. Once humps have come at `GAPS_MIN` equal distances,
the next one at that distance is the same again, as long as it is neither longer nor higher by half than the highest and the
longest of them. The first ones of a rhythm are like any other rise, and so are all that are more than `GAP_ROWS_MAX` rows apart:
what comes so seldom tires nobody, and a model that breaks at each of a few turns is not well. Distances are compared in steps, so
that it holds at any logging interval. Sentinel's own rule; figures in the detectors' LOG.md.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import NamedTuple

GAPS_MIN = 2
GAP_ROWS_MAX = 10_000  # false alarms are counted per ten thousand rows
ALIKE = 0.1  # of the distance: what a shuffle within the data, or a logging interval, moves a hump by
TIMES = 1.5


class Hump(NamedTuple):
    """`height`: above the level it left, in the units of the metric."""

    start: int
    rows: int
    height: float


class HardRows:
    """Fed with every hump that is over."""

    __slots__ = ("_humps",)

    def __init__(self) -> None:
        self._humps: deque[Hump] = deque(maxlen=GAPS_MIN + 1)

    def begin(self) -> None:
        self._humps.clear()

    def take(self, hump: Hump) -> None:
        self._humps.append(hump)

    def knows(self, hump: Hump, row_steps: int) -> bool:
        """Whether a hump, as far as it has come, is one more of a rhythm. `row_steps`: from one row to the next."""
        humps = self._humps
        if len(humps) <= GAPS_MIN:
            return False
        gaps = [later.start - earlier.start for earlier, later in pairwise((*humps, hump))]
        usual = sorted(gaps[:-1])[GAPS_MIN // 2]
        if usual > GAP_ROWS_MAX * row_steps or any(abs(gap - usual) > ALIKE * usual for gap in gaps):
            return False
        longest, highest = max(one.rows for one in humps), max(one.height for one in humps)
        return hump.rows <= math.ceil(TIMES * longest) and hump.height <= TIMES * highest
