"""Does a row of buckets move slowly to one side, has it turned, or does it stand at another level?

A trend: Mann-Kendall's S is beyond chance, and Theil-Sen's line over these buckets comes to the least change. A turn: two
opposite trends, one behind the other. A level: the newest third, or half, lies above both parts before it, by Mann-Whitney's U.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.long_history import Bucket
from sentinel.streams.monotone import mann_kendall, mann_whitney, median, theil_sen

BUCKETS_MIN = 9  # of fewer no order is beyond chance by 3.5 deviations
THIRDS_APART = 0.6  # of the least change: the middles of the outer thirds of a straight line lie two thirds of it apart

CAME_BACK = 0.5  # of the change: no longer one
QUARTER_MIN = 2  # buckets
SURELY = 2.5  # standard errors of the difference of two quarters

Course = Literal["goes on", "stands", "came back", "unknown"]
Shape = Literal["trend", "turn", "level"]


class Change(NamedTuple):
    """What was found: from which bucket on (its end is the onset), from where to where, how surely, and the steps that `level` is
    the median of."""

    sign: int
    start: Bucket
    base: float
    level: float
    z: float
    level_steps: int


class Judge(NamedTuple):
    """The three tests. `sign`: the direction that counts; of a turn either does. `least`: the change worth telling."""

    z: float

    def change(self, shape: Shape, buckets: Sequence[Bucket], sign: int, least: float) -> Change | None:
        if shape == "trend":
            return self.trend(buckets, sign, least)
        if shape == "level":
            return self.level(buckets, sign, least)
        return self.turn(buckets, 1, least) or self.turn(buckets, -1, least)

    def trend(self, buckets: Sequence[Bucket], sign: int, least: float) -> Change | None:
        """They move into the direction `sign`. The thirds are asked first: they cost little, and most healthy runs fail there."""
        count = len(buckets)
        if count < BUCKETS_MIN:
            return None
        values = [sign * bucket.middle for bucket in buckets]
        third = count // 3
        base, level = median(values[:third]), median(values[-third:])
        if level - base < THIRDS_APART * least or level < median(values[third:-third]):
            return None
        z = mann_kendall(values)
        if z < self.z:
            return None
        places = [float(bucket.last_step) for bucket in buckets]
        slope = theil_sen(places, values)
        middle, place = median(values), median(places)
        # The ends of the line, as far as any bucket stood there; a bend leaves the outer thirds farther apart than the line.
        first = min(base, max(min(values), middle - slope * (place - places[0])))
        last = max(level, min(max(values), middle + slope * (places[-1] - place)))
        if last - first < least:
            return None
        return Change(sign, _left(buckets, values, base), sign * first, sign * last, z, _steps(buckets[-third:]))

    def turn(self, buckets: Sequence[Bucket], sign: int, least: float) -> Change | None:
        """They moved into the direction `sign`, and now move back."""
        if len(buckets) < 2 * BUCKETS_MIN - 1:
            return None
        values = [sign * bucket.middle for bucket in buckets]
        at = max(range(len(values)), key=values.__getitem__)
        back = self.trend(buckets[at:], -sign, least)  # first: a healthy run has moved, and has not turned
        if back is None or self.trend(buckets[: at + 1], sign, least) is None:
            return None
        return back._replace(start=buckets[at], base=buckets[at].middle)

    def level(self, buckets: Sequence[Bucket], sign: int, least: float) -> Change | None:
        """The newest third lies above both thirds before it; or, where the change is too near the beginning, half above half."""
        count = len(buckets)
        values = [sign * bucket.middle for bucket in buckets]
        for newest in (count // 3, count // 2) if count >= 2 * BUCKETS_MIN else ():
            older, newer = values[:-newest], values[-newest:]
            half = len(older) // 2
            base, level = max(median(older[:half]), median(older[half:])), median(newer)
            if level - base < least:
                continue
            z = mann_whitney(older, newer)
            if z >= self.z:
                start = _left(buckets, values, 0.5 * (base + level))
                return Change(sign, start, sign * base, sign * level, z, _steps(buckets[-newest:]))
        return None


def course_since(buckets: Sequence[Bucket], change: Change) -> Course:
    """What has become of a change that was found. The buckets since its start are cut into quarters: of an even change the newest
    quarter lies a quarter of the whole beyond the one before, and an eighth is the limit. The whole is measured anew each time,
    since what was found first is often too large: noise that adds to a change makes it found."""
    since = [bucket for bucket in buckets if bucket.last_step > change.start.last_step]
    quarter = len(since) // 4
    if quarter < QUARTER_MIN:
        return "unknown"
    values = [change.sign * bucket.middle for bucket in since[len(since) % 4 :]]
    means = [sum(values[at : at + quarter]) / quarter for at in range(0, len(values), quarter)]
    jumps = [abs(newer.middle - older.middle) for older, newer in pairwise(buckets)]
    error = SURELY * MAD_TO_SIGMA * median(jumps) / math.sqrt(quarter)
    base, newest, moved = change.sign * change.base, means[-1], means[-1] - means[-2]
    whole = max(means) - base
    if newest + error < base + CAME_BACK * whole:
        return "came back"
    if moved - error > whole / 8:
        return "goes on"
    return "stands" if max(0.0, moved) + error < whole / 8 else "unknown"


def _steps(buckets: Sequence[Bucket]) -> int:
    return buckets[-1].last_step - buckets[0].first_step + 1


def _left(buckets: Sequence[Bucket], values: Sequence[float], level: float) -> Bucket:
    """The last bucket that stood at the level or below it: there the change began."""
    return next((bucket for bucket, value in zip(reversed(buckets), reversed(values), strict=True) if value <= level), buckets[0])
