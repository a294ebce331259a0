"""What the charts are called and how they are arranged, as the registry of curves says.

A chart is called as Megatron-LM calls it where it has one, so that people see what they are used to. Every name leads back:
`sentinel replay` of a board sees the metrics the trainer wrote (`telemetry/metric_names.py`).

>>> chart_name("grad_norm"), chart_name("activation_norm")
('grad-norm', 'activation_norm')
"""

from __future__ import annotations

from sentinel.curves.registry import CURVES
from sentinel.model.metrics import KnownMetric
from sentinel.telemetry.tensorboard import OURS

MARKER = f"{OURS}incident"
STORY = f"{OURS}incidents"
MARKER_CHART = ("incidents, by number, at their onset", (rf"^{MARKER}$",))
MARKER_PLACE = 2  # in the tab "run": behind loss and gradient norm, which most incidents are about

Chart = tuple[str, tuple[str, ...]]
"""Its title, and regular expressions of the tags it shows."""

MEGATRON = {curve.name: curve.tag for curve in CURVES if curve.tag}


def chart_name(metric: str) -> str:
    return MEGATRON.get(metric, metric)


def layout() -> dict[str, list[Chart]]:
    """The tabs and their charts, in the order of the registry; curves of one title share a chart."""
    tabs: dict[str, dict[str, tuple[str, ...]]] = {}
    for curve in CURVES:
        if curve.board is not None:
            charts = tabs.setdefault(curve.board, {})
            title = curve.chart or curve.label
            charts[title] = (*charts.get(title, ()), _tags_of(curve))
    found = {tab: list(charts.items()) for tab, charts in tabs.items()}
    found.setdefault("run", []).insert(MARKER_PLACE, MARKER_CHART)
    return found


def _tags_of(curve: KnownMetric) -> str:
    return f"^{curve.name}" if curve.is_family else f"^{chart_name(curve.name)}$"
