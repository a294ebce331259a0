"""Is the metric back where it was? Judged on medians, with a tolerance never finer than the noise of the two medians.

The standard error of a median of n values is about 1.253·σ/√n, and σ is about 1.4826·MAD (normal data); two such errors
add in quadrature. A judgement finer than three of them would be a coin toss, so the policy's ratio is a floor. The noise is
the healthy one from before the incident: a sick run's own scatter must not widen what it is judged by.

Fewer than `ROWS_MIN` rows, before or since, decide nothing: with two or three the tolerance is so wide that a loss 20 % above its
level has passed for healed (traced in a recorded run: a band of two rows, MAD 0.09, tolerance 0.46). That is *unknown*.
The noisier a metric is, the more rows are asked of it (`rows_to_tell`).

A loss far below its level is not back either: no repair halves it, so its numbers are not what they were. That is *unknown*.

Where the metric was falling, it must have come back, and not only have gone on falling from where it stood: a loss that stays 8 %
too high is at its old level, too, a few hundred steps later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sentinel.model.incidents import Band

LOSS = "loss"
MEDIAN_ERROR = 1.253 * 1.4826
SIGMAS = 3.0
ROWS_MIN = 10
RETURNED = 1 / 3
FALLS_MAX = 3.0  # descents flatten
STEEP = 1 / 3  # of the level: a loss that had fallen by more was in its beginning
TOO_HIGH = 0.05  # of the level before: what stays so much above it has not healed, and must not pass by chance
ROWS_TO_TELL_MAX = 40
TOO_LOW = 0.5  # of the level before: what `too_good` does not believe, either

Stands = Literal["within", "above", "unknown"]


class Peak(NamedTuple):
    """Where the metric stood when it was found."""

    step: int
    value: float


class Fall(NamedTuple):
    """As in `Band`: fall, fall_steps and lasting."""

    size: float = 0.0
    steps: int = 0
    lasting: float = 0.0


@dataclass(frozen=True, slots=True)
class BandVerdict:
    stands: Stands
    reason: str

    @property
    def is_within(self) -> bool:
        return self.stands == "within"

    @property
    def is_known(self) -> bool:
        return self.stands != "unknown"


def judge_band(
    now: Band | None,
    before: Band | None,
    ratio: float,
    peak: Peak | None = None,
    rows_min: int = ROWS_MIN,
    rows_above: int = ROWS_MIN,
) -> BandVerdict:
    """Whether `now` is at most `ratio` above `before`, or within three standard errors of it if that is wider.

    peak: how high it stood when it was found, where that is known. rows_min: rows that are asked of `now` before it counts as
    back. rows_above: before it counts as still above, where that is less."""
    if before is None:
        return BandVerdict("unknown", "no level before the incident to judge by")
    if before.count < ROWS_MIN:
        return BandVerdict("unknown", f"{before.metric} has {before.count} rows before the incident, too few to judge by")
    if now is None or now.count == 0:
        return BandVerdict("unknown", f"{before.metric} has not been logged since")
    if not math.isfinite(now.median):
        return BandVerdict("above", f"{now.metric} has no finite value to judge by")
    error = MEDIAN_ERROR * before.mad * math.sqrt(1.0 / now.count + 1.0 / before.count)
    tolerance = max(abs(before.median) * ratio, SIGMAS * error)
    limit = before.median + tolerance
    stands: Stands = "within" if now.median <= limit else "above"
    reason = (
        f"{now.metric} median {now.median:.4g} of {now.count} steps is {stands} {limit:.4g} "
        f"(before the incident {before.median:.4g}, tolerance {tolerance:.2g})"
    )
    if before.metric == LOSS and _is_too_low(now, before):
        return BandVerdict("unknown", f"{reason}, so far below it that it is not believed")
    if now.count < (rows_min if stands == "within" else min(rows_min, rows_above)):
        return BandVerdict("unknown", f"{reason}, and {now.count} rows are too few to tell")
    if stands == "within" and peak is not None and not _has_returned(now, before, peak):
        return BandVerdict("above", f"{reason}, but it has only gone on falling from {peak.value:.4g}, and has not come back")
    if stands == "within" and peak is not None:
        expected = before.median - _falls_at_least(before, peak, now)
        if now.median > expected + tolerance:
            return BandVerdict("above", f"{reason}, but its own descent would have brought it to {expected:.4g} since")
    return BandVerdict(stands, reason)


def _is_too_low(now: Band, before: Band) -> bool:
    """Whether a loss stands lower than its own descent can have brought it. A steep beginning may have brought it anywhere."""
    if before.median <= 0.0 or before.fall > STEEP * before.median:
        return False
    return now.median < TOO_LOW * before.median - FALLS_MAX * before.fall


def rows_to_tell(before: Band | None, ratio: float) -> int:
    """Rows since the incident that tell a metric at its old level from one that stays `TOO_HIGH` above it: the tolerance must end
    `SIGMAS` standard errors below that. From `ROWS_MIN` to `ROWS_TO_TELL_MAX`: in much noise nothing would end otherwise."""
    if before is None or before.mad <= 0.0 or not before.median:
        return ROWS_MIN
    relative = MEDIAN_ERROR * before.mad / abs(before.median)
    too_high = max(TOO_HIGH, 2 * ratio)
    error_max = min(too_high - ratio, too_high / 2) / SIGMAS
    share = (error_max / relative) ** 2 - 1.0 / max(1, before.count)
    return max(ROWS_MIN, min(ROWS_TO_TELL_MAX, math.ceil(1.0 / share))) if share > 0.0 else ROWS_TO_TELL_MAX


def _has_returned(now: Band, before: Band, peak: Peak) -> bool:
    """Whether it fell since by more than its own descent can explain, by a third of what it had risen: a loss that stays 6 % too
    high is at its old level, too, a few hundred steps later."""
    rise = peak.value - before.median
    if not 0.0 < rise < math.inf or not before.fall:
        return True
    own = before.fall * _falls_at_most(before, peak, now)
    return peak.value - now.median - own >= RETURNED * rise


def _falls_at_least(before: Band, peak: Peak, now: Band) -> float:
    """How far the curve has fallen since, if each half of `fall_steps` brings `lasting` times what the half before it brought: so
    an exponential falls, and whatever flattens later falls further. A steep beginning goes on like nothing."""
    share = before.lasting
    if share <= 0.0 or now.step <= before.step or before.fall > STEEP * abs(before.median):
        return 0.0
    halves = 2.0 * (now.step - before.step) / before.fall_steps
    brought = halves if share == 1.0 else share * (1.0 - share**halves) / (1.0 - share)
    bound = _falls_in_a_line if _is_straighter_than_logarithm(before, peak) else _falls_at_most
    return before.fall * min(share / (1.0 + share) * brought, bound(before, peak, now))


def _is_straighter_than_logarithm(before: Band, peak: Peak) -> bool:
    """Whether its fall before flattened less than a logarithm's, noise allowed for: then that is no bound."""
    began = peak.step - before.fall_steps
    if began <= 0:
        return False
    middle = began + before.fall_steps / 2.0
    return before.lasting > math.log(peak.step / middle) / math.log(middle / began)


def _falls_at_most(before: Band, peak: Peak, now: Band) -> float:
    """How often it may have repeated the fall before since it was found."""
    return min(_falls_in_a_line(before, peak, now), _falls_by_logarithm(before, peak, now))


def _falls_in_a_line(before: Band, peak: Peak, now: Band) -> float:
    return min((now.step - peak.step) / before.fall_steps, FALLS_MAX)


def _falls_by_logarithm(before: Band, peak: Peak, now: Band) -> float:
    """How often a curve that falls with the logarithm of the step repeats its last fall: no loss falls faster for long, and a
    straight line out of a steep beginning explains any spike away."""
    began = peak.step - before.fall_steps
    if began <= 0 or now.step <= peak.step:
        return math.inf
    return math.log(now.step / peak.step) / math.log(peak.step / began)


def measure_fall(rows: Sequence[tuple[int, float]], noise: float = 0.0) -> Fall:
    """How (step, value) rows, oldest first, had been falling: from the medians of their thirds; nothing where they do not fall,
    or are too few. noise: MAD of single rows around wherever they are going."""
    third = len(rows) // 3
    if third < ROWS_MIN:
        return Fall()
    (older, old), (_, middle), (newer, new) = (_middle(part) for part in (rows[:third], rows[third:-third], rows[-third:]))
    fall = old - new
    if not 0.0 < fall < math.inf or newer <= older:
        return Fall()
    error = 0.5 * MEDIAN_ERROR * noise * math.sqrt(2.0 / third)
    earlier, later = old - middle + error, middle - new - error
    return Fall(fall, newer - older, max(0.0, min(1.0, later / earlier)) if earlier > 0.0 else 0.0)


def _middle(rows: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """The middle row's step, and the median value."""
    return rows[len(rows) // 2][0], sorted(value for _, value in rows)[len(rows) // 2]
