"""Whether a co-signal that rose before an alarm has a cause of its own, so that what came later need not have begun there.

Two of them leave their mark in the gradient norm or the loss:

- one of them was no number where the signal began to move (a gradient left out still reaches some optimizers' moments);
- the gradient norm was far above its band for a row or a few, and in its band before and since. Adam's second moment keeps such
  a row by its recurrence, v' = b2 v + (1 - b2) g^2, and wears it down only over 1 / (1 - b2) steps: it stands high without a
  break until an alarm that has nothing to do with it. The mark of that is that the signal was at its highest in those rows, and
  has only been lower since. It may seem to begin before them, where the noise of a slow moment happened to rise.

A third leaves none (a row that is not logged, one tensor among many, a moment that was loaded): Adam's second moment was at its
highest long before the alarm, and has only worn down since, row after row. What leads into an alarm keeps its height, or climbs.

A gradient norm that is not logged, or was high in a row that is not, is no known cause of another signal than that moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.series import Series

GRADIENT = "grad_norm"
BAND_ROWS = 100  # before it, which the band is made of
BAND_ROWS_MIN = 20
SIGMAS, TIMES = 4.0, 1.5  # above its middle, in log space: one row in 30,000 of a log-normal norm
BURST_ROWS = 3
MOMENT = "adam_v_max"
WEARS_ROWS, WEARS_SHARE = 10, 0.8  # of a level that stays half the rows fall, and of ten or more hardly ever four fifths
CALM_ROWS = 4  # in the band again; fewer may be the real beginning, and a date so little too early costs little


def has_own_cause(series: Series, signal: str, began: int, alarm_step: int) -> bool:
    """Whether something else moved `signal` at step `began`, before the alarm's own metric broke at `alarm_step`."""
    reach = series.interval_steps
    if _is_no_number(series, signal, began - 2 * reach, began + reach):
        return True
    if signal == MOMENT and _only_wears(series, began, alarm_step):
        return True
    return signal != GRADIENT and _is_worn_outlier(series, signal, began, alarm_step)


def _only_wears(series: Series, began: int, alarm_step: int) -> bool:
    """Whether the moment fell in nearly all of the rows since its peak, and they are enough to tell."""
    rows = series.entries(MOMENT, began - 2 * series.interval_steps - 1, alarm_step - 1)
    values = [value for _, value in rows]
    if not values or any(value - value != 0.0 for value in values):
        return False
    since = values[values.index(max(values)) :]
    falls = sum(newer < older for older, newer in pairwise(since))
    return len(since) > WEARS_ROWS and falls >= WEARS_SHARE * (len(since) - 1)


def _is_no_number(series: Series, signal: str, first: int, last: int) -> bool:
    others = (name for name in ("loss", GRADIENT) if name != signal)
    return any(value - value != 0.0 for name in others for _, value in series.entries(name, first - 1, last))


def _is_worn_outlier(series: Series, signal: str, began: int, alarm_step: int) -> bool:
    """Whether the signal was highest with such a row, and the gradient has been in its band otherwise."""
    reach = series.interval_steps
    moved = series.entries(signal, began - 2 * reach - 1, alarm_step - 1)
    if not moved or any(value - value != 0.0 for _, value in moved):
        return False
    peak, _ = max(moved, key=lambda row: row[1])
    rows = series.entries(GRADIENT, -1, alarm_step - 1)
    limit = _limit([value for step, value in rows if step < began - 2 * reach][-BAND_ROWS:])
    if limit is None or not any(value > limit for step, value in rows if peak - BURST_ROWS * reach < step <= peak):
        return False
    before = [value for step, value in rows if began <= step <= peak - BURST_ROWS * reach]
    since = [value for step, value in rows if step > peak]
    return len(since) >= CALM_ROWS and _is_calm(before, limit) and _is_calm(since, limit)


def _is_calm(values: Sequence[float], limit: float) -> bool:
    """At most one in ten is above; a value that is no number is."""
    return 10 * sum(not value <= limit for value in values) <= len(values)


def _limit(past: Sequence[float]) -> float | None:
    """The top of the band of a norm; None where its past is too short."""
    logs = [math.log(value) for value in past if 0.0 < value < math.inf]
    if len(logs) < BAND_ROWS_MIN:
        return None
    middle = median(logs)
    sigma = MAD_TO_SIGMA * median(abs(value - middle) for value in logs)
    return math.exp(middle + max(SIGMAS * sigma, math.log(TIMES)))
