"""The metrics that are shown as curves, a row each. To add a curve everywhere, add its row to CURVES.

Every surface derives from this list: the page in the browser, the HTML reports, the terminal view and `sentinel top`, the layout
of TensorBoard, and the gauges of /metrics. Each shows its curves in the order of the rows, as far as the trainer reports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Surface = Literal["page", "report", "terminal"]
Board = Literal["run", "layers", "update", "speed"]

SHORT_CHARS_MAX = 10  # the terminal's column of labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCurve:
    """`metric`: its name in the stream; one that ends in a slash is a family, one curve per layer (`activation_norm/block-03`).
    `label`: for people. `short`: the same in SHORT_CHARS_MAX characters, where the metric's name is longer or less clear.
    `unit`: empty for a plain number.
    `page`, `report`, `terminal`: shown there by default.
    `board`: the tab of TensorBoard's layout that shows it; `chart`: the title of its chart where several share one, else `label`;
    `tag`: what Megatron-LM calls it, where it has such a chart.
    `gauge`: its family in /metrics, and `meaning` the help text of that. A family of curves and its metric may share a gauge."""

    metric: str
    label: str
    short: str = ""
    unit: str = ""
    page: bool = False
    report: bool = False
    terminal: bool = False
    board: Board | None = None
    chart: str = ""
    tag: str = ""
    gauge: str = ""
    meaning: str = ""

    def __post_init__(self) -> None:
        assert len(self.short) <= SHORT_CHARS_MAX, f"{self.metric}: the terminal has no room for {self.short!r}"
        assert not (self.is_family and (self.report or self.terminal)), f"{self.metric}: reports and terminals show single curves"
        assert not (self.is_family and self.tag), f"{self.metric}: a family keeps its own names in TensorBoard"

    @property
    def is_family(self) -> bool:
        return self.metric.endswith("/")


CURVES: tuple[ShownCurve, ...] = (
    ShownCurve(
        metric="loss", label="loss", page=True, report=True, terminal=True, board="run", tag="lm loss",
        gauge="sentinel_loss", meaning="Training loss as last told; NaN and infinities as they are",
    ),
    ShownCurve(
        metric="grad_norm", label="gradient norm", short="grad norm", page=True, report=True, terminal=True,
        board="run", tag="grad-norm", gauge="sentinel_grad_norm", meaning="Gradient norm before clipping",
    ),
    ShownCurve(metric="grad_norm/", label="gradient norm of each layer", board="layers"),
    ShownCurve(
        metric="grad_share_max", label="largest layer's share of the gradient", short="top layer", unit="ratio", page=True,
        report=True, terminal=True, board="layers",
        gauge="sentinel_grad_share_max_ratio", meaning="Share of the squared gradient norm that the largest layer holds",
    ),
    ShownCurve(
        metric="activation_norm", label="RMS of the last layer's output", short="act. norm", report=True, terminal=True,
        gauge="sentinel_activation_norm",
        meaning="RMS of the stream behind a layer; layer `final` is that before the head",
    ),
    ShownCurve(
        metric="activation_norm/", label="RMS of each layer's output", page=True, board="layers",
        gauge="sentinel_activation_norm",
    ),
    ShownCurve(metric="activation_max/", label="largest value of each layer's output", board="layers"),
    ShownCurve(
        metric="loss_scale", label="loss scale", short="scale", page=True, report=True, terminal=True,
        board="run", tag="loss-scale", gauge="sentinel_loss_scale", meaning="Loss scale of fp16",
    ),
    ShownCurve(
        metric="lr", label="learning rate", page=True, report=True, terminal=True, board="run", tag="learning-rate",
        gauge="sentinel_learning_rate", meaning="Learning rate of the step",
    ),
    ShownCurve(
        metric="val_loss", label="held-out loss", short="val loss", terminal=True,
        board="run", chart="loss", tag="lm loss validation",
        gauge="sentinel_val_loss", meaning="Held-out loss as last told by this attempt",
    ),
    ShownCurve(
        metric="param_norm", label="parameter norm", board="run", tag="params-norm",
        gauge="sentinel_param_norm", meaning="Norm of the parameters",
    ),
    ShownCurve(
        metric="update_norm", label="update norm", board="update",
        gauge="sentinel_update_norm", meaning="Norm of the update",
    ),
    ShownCurve(metric="adam_v_norm", label="Adam's second moments, norm", board="update"),
    ShownCurve(metric="adam_v_max", label="Adam's second moments, largest", board="update"),
    ShownCurve(metric="clip_fraction", label="share of steps clipped", board="update"),
    ShownCurve(metric="skipped", label="updates skipped", board="update", chart="updates left out"),
    ShownCurve(metric="overflow", label="updates that overflowed", board="update", chart="updates left out"),
    ShownCurve(metric="logit_max", label="largest logit", board="update"),
    ShownCurve(
        metric="tokens_per_s", label="tokens per second", board="speed",
        gauge="sentinel_tokens_per_second", meaning="Throughput as the trainer tells it",
    ),
    ShownCurve(
        metric="step_time_s", label="seconds per step", unit="seconds", board="speed", tag="iteration-time",
        gauge="sentinel_step_seconds", meaning="A whole step",
    ),
    ShownCurve(metric="data_time_s", label="seconds waiting for data", unit="seconds", board="speed", chart="seconds per step"),
    ShownCurve(
        metric="mfu", label="share of the devices' peak (MFU)", unit="ratio", board="speed",
        gauge="sentinel_mfu_ratio", meaning="Model FLOPs over the devices' peak",
    ),
    ShownCurve(
        metric="peak_memory_bytes", label="peak memory", unit="bytes", tag="mem-max-allocated-bytes",
        gauge="sentinel_memory_bytes", meaning="The most that rank 0 has held",
    ),
)  # fmt: skip


def metrics_shown_on(surface: Surface) -> tuple[str, ...]:
    """The metrics, and families, that a surface shows by default."""
    return tuple(curve.metric for curve in CURVES if getattr(curve, surface))
