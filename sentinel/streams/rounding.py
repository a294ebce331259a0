"""How exactly a log writes its numbers: no spread can be known to be smaller than what rounding makes of it."""

from __future__ import annotations

import math
from collections.abc import Iterable

PLACES_MAX = 6  # a number with more is not rounded, or so finely that no noise is as small
SIGMA = 1.0 / math.sqrt(12.0)  # the standard deviation of rounding, in units of the last place


def rounding_sigma(values: Iterable[float], *, is_log: bool = False) -> float:
    """The standard deviation that rounding alone makes, in the units of the values; 0.0 for numbers that were not rounded.
    `is_log`: they are logarithms of what was logged."""
    logged = [math.exp(min(value, 700.0)) for value in values] if is_log else list(values)
    places = max(map(decimal_places, logged))
    if places > PLACES_MAX:
        return 0.0
    return SIGMA * 10.0**-places / (sorted(logged)[len(logged) // 2] if is_log else 1.0)


def decimal_places(value: float) -> int:
    """With how many a number is written; one more than PLACES_MAX for one that was not rounded to so few."""
    for places in range(PLACES_MAX + 1):
        if abs(value - round(value, places)) < 1e-9 * max(1.0, abs(value)):
            return places
    return PLACES_MAX + 1
