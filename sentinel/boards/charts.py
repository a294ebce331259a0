"""What the charts are called: as Megatron-LM calls them where it has one, so that people see what they are used to.

Every name leads back: `sentinel replay` of a board sees the metrics the trainer wrote (`telemetry/metric_names.py`).

>>> chart_name("grad_norm"), chart_name("activation_norm")
('grad-norm', 'activation_norm')
"""

from __future__ import annotations

from sentinel.telemetry.tensorboard import OURS

MEGATRON = {
    "loss": "lm loss",
    "val_loss": "lm loss validation",
    "grad_norm": "grad-norm",
    "lr": "learning-rate",
    "loss_scale": "loss-scale",
    "param_norm": "params-norm",
    "step_time_s": "iteration-time",
}
MARKER = f"{OURS}incident"
STORY = f"{OURS}incidents"

LAYOUT = {
    "run": (
        ("loss", (r"^lm loss$", r"^lm loss validation$")),
        ("gradient norm", (r"^grad-norm$",)),
        ("incidents, by number, at their onset", (rf"^{MARKER}$",)),
        ("learning rate", (r"^learning-rate$",)),
        ("loss scale", (r"^loss-scale$",)),
        ("parameter norm", (r"^params-norm$",)),
    ),
    "speed": (("tokens per second", (r"^tokens_per_s$",)), ("seconds per step", (r"^iteration-time$", r"^data_time_s$"))),
}


def chart_name(metric: str) -> str:
    return MEGATRON.get(metric, metric)
