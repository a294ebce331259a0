"""Which metrics are shown as curves, and where: the rows of `sentinel/model/metrics.py` that have a label, in their order.

Every surface derives from this: the page in the browser, the HTML reports, the terminal view and `sentinel top`, the layout of
TensorBoard, and the gauges of /metrics.
"""

from __future__ import annotations

from typing import Literal

from sentinel.model.metrics import METRICS, KnownMetric

Surface = Literal["page", "report", "terminal"]

CURVES: tuple[KnownMetric, ...] = tuple(metric for metric in METRICS if metric.label)


def metrics_shown_on(surface: Surface) -> tuple[str, ...]:
    """The metrics, and families, that a surface shows by default."""
    return tuple(curve.name for curve in CURVES if getattr(curve, surface))
