"""How exactly a log writes its numbers: no spread can be known more exactly than rounding lets it be.

A value that was rounded lies within half a unit of its last place. So does a median of deviations: where more than half of
the rows show one and the same number, the noise may still be three quarters of a unit."""

from __future__ import annotations

import math
from collections.abc import Iterable

PLACES_MAX = 6  # a number with more is not rounded, or so finely that no noise is as small
HALF = 0.5


def rounding_half(values: Iterable[float], *, is_log: bool = False) -> float:
    """Half a unit of the last place, in the units of the values; 0.0 for numbers that were not rounded. `is_log`: they are
    logarithms of what was logged."""
    logged = [math.exp(min(value, 700.0)) for value in values] if is_log else list(values)
    places = 0
    for value in logged:
        places = max(places, decimal_places(value))
        if places > PLACES_MAX:
            return 0.0  # as a rule the first value says so
    return HALF * 10.0**-places / (sorted(logged)[len(logged) // 2] if is_log else 1.0)


def decimal_places(value: float) -> int:
    """With how many a number is written; one more than PLACES_MAX for one that was not rounded to so few."""
    for places in range(PLACES_MAX + 1):
        if abs(value - round(value, places)) < 1e-9 * max(1.0, abs(value)):
            return places
    return PLACES_MAX + 1
