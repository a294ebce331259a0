"""Where a metric stands against a band it once had, row by row."""

from __future__ import annotations

from sentinel.streams.baseline import MAD_TO_SIGMA
from sentinel.streams.series import Series

BAND_SIGMAS = 3.0


def top_of_band(median: float, mad: float, ratio: float) -> float:
    """The upper end of a band for single rows: `ratio` above its median, or its noise where that is wider."""
    return median + max(ratio * abs(median), BAND_SIGMAS * MAD_TO_SIGMA * mad)


def back_since(series: Series, metric: str, top: float, from_step: int) -> int | None:
    """The first step from `from_step` on since when the metric stands below `top`, one odd row forgiven; None when the newest
    rows do not, or none is kept."""
    rows, back = series.entries(metric, from_step - 1), None
    above = [not value <= top for _, value in rows]
    for index in range(len(rows) - 1, -1, -1):
        if above[index] and (index == 0 or above[index - 1]):
            break
        back = back if above[index] else rows[index][0]
    return back
