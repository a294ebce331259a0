"""The metrics that trainers are known to write into a step line, a row each: what Sentinel knows of each of them.

To add one, add its row to METRICS and to the table of metrics in `sentinel/client/PROTOCOL.md`, which says what it is. With a
`label` it is a curve: the page in the browser, the reports, the terminal and `sentinel top`, TensorBoard and /metrics show it, as
far as the trainer writes it, in the order of the rows. Everything else reads this table: the checker of expressions, the metrics
that date an onset, and the noise of simulated series. A trainer may write others; they are recorded and judged all the same.

>>> [metric.pattern for metric in METRICS if metric.is_family]
['grad_norm/LAYER', 'activation_norm/LAYER', 'activation_max/LAYER', 'param_norm/rank-N']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

Board = Literal["run", "layers", "update", "speed"]
Onset = Literal["rise", "ratio", "halvings"]

SHORT_CHARS_MAX = 10  # the terminal's column of labels


def is_family(name: str) -> bool:
    """Whether the name stands for all metrics that begin with it: `grad_norm/` for `grad_norm/h.3`."""
    return name.endswith("/")


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """`name`: in the stream; one that ends in a slash is a family, a metric for each member (`activation_norm/block-03`).
    `member`: what stands behind the slash, as PROTOCOL.md writes it.
    `is_exact`: a setting or a count; it has no noise.
    `is_state`: a value that is no number says that the loss or the model's own state is damaged (`detectors/non_finite.py`).
    `also`: what other trainers call it, in lower case with one underscore for blanks and dashes (`telemetry/metric_names.py`).
    `onset`: what of it may date an incident (`detectors/onset.py`): a rise, a rise in log space, or halvings; None: nothing.

    The rest is for a curve. `label`: for people; empty: it is no curve.
    `short`: the same in SHORT_CHARS_MAX characters, where the metric's name is longer or less clear.
    `unit`: empty for a plain number.
    `page`, `report`, `terminal`: shown there by default.
    `board`: the tab of TensorBoard's layout that shows it; `chart`: the title of its chart where several share one, else `label`;
    `tag`: what Megatron-LM calls it, where it has such a chart.
    `gauge`: its family in /metrics, and `meaning` the help text of that. A family of curves and its metric may share a gauge."""

    name: str
    _: KW_ONLY
    member: str = ""
    is_exact: bool = False
    is_state: bool = False
    also: tuple[str, ...] = ()
    onset: Onset | None = None
    label: str = ""
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
        assert self.is_family == bool(self.member), f"{self.name}: a family, and nothing else, says what stands behind its slash"
        assert not (self.is_family and self.onset), f"{self.name}: single metrics date an onset"
        assert len(self.short) <= SHORT_CHARS_MAX, f"{self.name}: the terminal has no room for {self.short!r}"
        assert not (self.is_family and (self.report or self.terminal)), f"{self.name}: reports and terminals show single curves"
        assert not (self.is_family and self.tag), f"{self.name}: a family keeps its own names in TensorBoard"

    @property
    def is_family(self) -> bool:
        return is_family(self.name)

    @property
    def pattern(self) -> str:
        """The name, with a word for the member of a family: `grad_norm/LAYER`."""
        return self.name + self.member


METRICS: tuple[KnownMetric, ...] = (
    KnownMetric(
        "loss", is_state=True, onset="rise",
        also=(
            "train_loss", "training_loss", "total_loss", "reduced_train_loss", "lm_loss_training", "loss/train",
            "loss/train/total", "train_loss_step", "loss_step", "ce_loss", "cross_entropy_loss", "crossentropyloss",
            "loss_metrics/global_avg_loss", "train/samples/train_loss", "loss_train", "languagecrossentropy",
        ),
        label="loss", page=True, report=True, terminal=True, board="run", tag="lm loss",
        gauge="sentinel_loss", meaning="Training loss as last told; NaN and infinities as they are",
    ),
    KnownMetric(
        "grad_norm", onset="ratio",
        also=(
            "gradnorm", "gradient_norm", "global_grad_norm", "total_grad_norm", "gnorm", "grad_norm/train", "grad/norm/total",
            "l2_norm/grad/global",
        ),
        label="gradient norm", short="grad norm", page=True, report=True, terminal=True,
        board="run", tag="grad-norm", gauge="sentinel_grad_norm", meaning="Gradient norm before clipping",
    ),
    KnownMetric("grad_norm/", member="LAYER", label="gradient norm of each layer", board="layers"),
    KnownMetric(
        "grad_share_max", label="largest layer's share of the gradient", short="top layer", unit="ratio", page=True,
        report=True, terminal=True, board="layers",
        gauge="sentinel_grad_share_max_ratio", meaning="Share of the squared gradient norm that the largest layer holds",
    ),
    KnownMetric(
        "activation_norm", onset="ratio", label="RMS of the last layer's output", short="act. norm", report=True, terminal=True,
        gauge="sentinel_activation_norm",
        meaning="RMS of the stream behind a layer; layer `final` is that before the head",
    ),
    KnownMetric(
        "activation_norm/", member="LAYER", label="RMS of each layer's output", page=True, board="layers",
        gauge="sentinel_activation_norm",
    ),
    KnownMetric("activation_max/", member="LAYER", label="largest value of each layer's output", board="layers"),
    KnownMetric(
        "loss_scale", is_exact=True, onset="halvings",
        also=("lossscale", "grad_scale", "loss_scale_factor", "train/samples/loss_scale"),
        label="loss scale", short="scale", page=True, report=True, terminal=True,
        board="run", tag="loss-scale", gauge="sentinel_loss_scale", meaning="Loss scale of fp16",
    ),
    KnownMetric(
        "lr", is_exact=True, also=("learning_rate", "current_learning_rate", "lr_(group_0)", "train/samples/lr"),
        label="learning rate", page=True, report=True, terminal=True, board="run", tag="learning-rate",
        gauge="sentinel_learning_rate", meaning="Learning rate of the step",
    ),
    KnownMetric("weight_decay", is_exact=True),
    KnownMetric(
        "val_loss", is_state=True, onset="rise",
        also=(
            "eval_loss", "valid_loss", "validation_loss", "lm_loss_validation_0", "loss/val", "loss/eval", "loss_val",
            "eval/languagecrossentropy",
        ),
        label="held-out loss", short="val loss", terminal=True,
        board="run", chart="loss", tag="lm loss validation",
        gauge="sentinel_val_loss", meaning="Held-out loss as last told by this attempt",
    ),
    KnownMetric(
        "param_norm", is_state=True, also=("parameter_norm",), label="parameter norm", board="run", tag="params-norm",
        gauge="sentinel_param_norm", meaning="Norm of the parameters",
    ),
    KnownMetric("param_norm/", member="rank-N", is_state=True),
    KnownMetric(
        "update_norm", is_state=True, onset="ratio", label="update norm", board="update",
        gauge="sentinel_update_norm", meaning="Norm of the update",
    ),
    KnownMetric("adam_v_norm", is_state=True, label="Adam's second moments, norm", board="update"),
    KnownMetric("adam_v_max", is_state=True, onset="ratio", label="Adam's second moments, largest", board="update"),
    KnownMetric("clip_coef"),
    KnownMetric("clip_fraction", label="share of steps clipped", board="update"),
    KnownMetric("skipped", is_exact=True, label="updates skipped", board="update", chart="updates left out"),
    KnownMetric("overflow", is_exact=True, label="updates that overflowed", board="update", chart="updates left out"),
    KnownMetric("logit_max", onset="ratio", label="largest logit", board="update"),
    KnownMetric(
        "tokens_per_s",
        also=("tokens_per_sec", "tokens_per_second", "tps", "throughput(tps)", "throughput/tokens_per_sec",
              "throughput/device/tokens_per_second", "tokens/s", "tokens/sec", "tok/s", "tok/sec", "tokens/sec/gpu",
              "tokens/s/device", "wps"),
        label="tokens per second", board="speed",
        gauge="sentinel_tokens_per_second", meaning="Throughput as the trainer tells it",
    ),
    KnownMetric(
        "step_time_s", also=("train_step_timing_in_s", "time_metrics/end_to_end(s)"),
        label="seconds per step", unit="seconds", board="speed", tag="iteration-time",
        gauge="sentinel_step_seconds", meaning="A whole step",
    ),
    KnownMetric("data_time_s", label="seconds waiting for data", unit="seconds", board="speed", chart="seconds per step"),
    KnownMetric(
        "mfu", label="share of the devices' peak (MFU)", unit="ratio", board="speed",
        gauge="sentinel_mfu_ratio", meaning="Model FLOPs over the devices' peak",
    ),
    KnownMetric(
        "peak_memory_bytes", label="peak memory", unit="bytes", tag="mem-max-allocated-bytes",
        gauge="sentinel_memory_bytes", meaning="The most that rank 0 has held",
    ),
    KnownMetric("nonfinite_count", is_exact=True),
    KnownMetric("nonfinite_activations", is_exact=True),
    KnownMetric("nonfinite_logits", is_exact=True),
)  # fmt: skip
STATE_PREFIXES = ("adam_", "update_norm/")  # of further moments and updates that a trainer may write
BY_NAME: Mapping[str, KnownMetric] = {metric.name: metric for metric in METRICS}


def shown_name(name: str) -> str:
    """The name for people: `grad_norm/LAYER` for the family `grad_norm/`."""
    known = BY_NAME.get(name)
    return known.pattern if known is not None else f"{name}*" if is_family(name) else name


def is_state(name: str) -> bool:
    """Whether a value of this metric that is no number says that the loss or the model's own state is damaged."""
    group, slash, _ = name.partition("/")
    known = BY_NAME.get(group + slash)
    return known.is_state if known is not None else name.startswith(STATE_PREFIXES)


def is_known(name: str) -> bool:
    """Whether a row of the table is about this metric, itself or as a member of its family."""
    group, slash, _ = name.partition("/")
    return name in BY_NAME or (bool(slash) and group + slash in BY_NAME)
