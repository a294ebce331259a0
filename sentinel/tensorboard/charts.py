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
    "peak_memory_bytes": "mem-max-allocated-bytes",
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
    "layers": (
        ("gradient norm of each layer", (r"^grad_norm/",)),
        ("RMS of each layer's output", (r"^activation_norm/",)),
        ("largest value of each layer's output", (r"^activation_max/",)),
    ),
    "update": (
        ("update norm", (r"^update_norm$",)),
        ("Adam's second moments, norm", (r"^adam_v_norm$",)),
        ("Adam's second moments, largest", (r"^adam_v_max$",)),
        ("share of steps clipped", (r"^clip_fraction$",)),
        ("updates left out", (r"^skipped$", r"^overflow$")),
        ("largest logit", (r"^logit_max$",)),
    ),
    "speed": (
        ("tokens per second", (r"^tokens_per_s$",)),
        ("seconds per step", (r"^iteration-time$", r"^data_time_s$")),
        ("share of the devices' peak (MFU)", (r"^mfu$",)),
    ),
}


def chart_name(metric: str) -> str:
    return MEGATRON.get(metric, metric)
