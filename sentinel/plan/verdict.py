"""Is the metric back where it was? Judged on medians, with a tolerance never finer than the noise of the two medians.

The standard error of a median of n values is about 1.253·σ/√n, and σ is about 1.4826·MAD (normal data); two such errors
add in quadrature. A judgement finer than three of them would be a coin toss, so the policy's ratio is a floor. The noise is
the healthy one from before the incident: a sick run's own scatter must not widen what it is judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sentinel.model.incidents import Band

MEDIAN_ERROR = 1.253 * 1.4826
SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class BandVerdict:
    is_within: bool
    reason: str


def judge_band(now: Band, before: Band, ratio: float) -> BandVerdict:
    """Whether `now` is at most `ratio` above `before`, or within three standard errors of it if that is wider."""
    if now.count == 0 or not math.isfinite(now.median):
        return BandVerdict(False, f"{now.metric} has no finite value to judge by")
    error = MEDIAN_ERROR * before.mad * math.sqrt(1.0 / now.count + 1.0 / max(before.count, 1))
    limit = before.median + max(abs(before.median) * ratio, SIGMAS * error)
    word = "within" if now.median <= limit else "above"
    reason = (
        f"{now.metric} median {now.median:.4g} of {now.count} steps is {word} {limit:.4g} "
        f"(before the incident {before.median:.4g}, tolerance {limit - before.median:.2g})"
    )
    return BandVerdict(now.median <= limit, reason)
