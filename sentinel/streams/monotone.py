"""Is a short series on its way up, and how steeply? Tests of ranks: they ask for no distribution and are not moved by outliers.

Mann-Kendall's S counts the pairs that rise less those that fall (Mann 1945; Kendall 1975); `mann_kendall` gives it in its own
standard deviations, corrected for ties and for continuity. Theil-Sen's slope is the median of the slopes of all pairs (Theil
1950; Sen 1968). `mann_whitney` compares two groups alike (Mann and Whitney 1947). All three take their values as independent.
Medians of longer and longer stretches nearly are; whatever wanders is not, so a caller asks for a least change as well.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence


def mann_kendall(values: Sequence[float]) -> float:
    """S in standard deviations: positive where the values rise. 0 where nothing can be said."""
    seen: list[float] = []
    s = 0
    for value in values:
        s += bisect_left(seen, value) + bisect_right(seen, value) - len(seen)
        insort(seen, value)
    n = len(values)
    spread = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    return _standardised(s, spread / 18.0)


def mann_whitney(older: Sequence[float], newer: Sequence[float]) -> float:
    """How far `newer` lies above `older`, in standard deviations of chance."""
    ordered = sorted(older)
    wins = sum(bisect_left(ordered, value) + bisect_right(ordered, value) - len(ordered) for value in newer)
    m, n = len(older), len(newer)
    total = m + n
    if total < 2:
        return 0.0
    ties = sum(t**3 - t for t in Counter((*older, *newer)).values()) / (total * (total - 1))
    return _standardised(wins, m * n * (total + 1 - ties) / 3.0)


def theil_sen(places: Sequence[float], values: Sequence[float]) -> float:
    """The median slope of all pairs; 0 where there is none."""
    slopes = sorted(
        (values[later] - values[at]) / (places[later] - places[at])
        for at in range(len(values))
        for later in range(at + 1, len(values))
        if places[later] != places[at]
    )
    return median(slopes) if slopes else 0.0


def median(values: Sequence[float]) -> float:
    """Of at least one value."""
    ordered, half = sorted(values), len(values) >> 1
    return ordered[half] if len(ordered) & 1 else 0.5 * (ordered[half - 1] + ordered[half])


def _standardised(s: int, variance: float) -> float:
    """With the correction for continuity: S moves in steps of two, and half a step is chance."""
    if variance <= 0.0 or not s:
        return 0.0
    return (s - math.copysign(1.0, s)) / math.sqrt(variance)
