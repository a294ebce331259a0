"""One name per quantity, whatever another trainer calls it: detectors know `loss`, `grad_norm`, `loss_scale`, `lr`, `val_loss`.

>>> canonical("lm-loss-training/lm loss"), canonical("Grad Norm"), canonical("eval_loss"), canonical("mfu")
('loss', 'grad_norm', 'val_loss', 'mfu')
"""

from __future__ import annotations

from functools import lru_cache

_KNOWN = {
    "loss": (
        "loss", "lm_loss", "train_loss", "training_loss", "total_loss", "train/loss", "training/loss", "loss/train",
        "lm_loss_training", "train_loss_step", "loss_step", "train/cross_entropy_loss", "train/crossentropyloss",
        "loss_metrics/global_avg_loss",
    ),
    "val_loss": (
        "val_loss", "eval_loss", "valid_loss", "validation_loss", "eval/loss", "val/loss", "valid/loss", "validation/loss",
        "loss/val", "loss/eval", "lm_loss_validation",
    ),
    "grad_norm": (
        "grad_norm", "gradnorm", "gradient_norm", "global_grad_norm", "total_grad_norm", "train/grad_norm", "training/grad_norm",
        "grad_norm/train", "train/gradient_norm", "optim/total_grad_norm",
    ),
    "loss_scale": ("loss_scale", "lossscale", "grad_scale", "loss_scale_factor", "train/loss_scale"),
    "lr": ("lr", "learning_rate", "train/learning_rate", "train/lr", "optim/learning_rate"),
    "param_norm": ("param_norm", "params_norm", "parameter_norm"),
    "step_time_s": ("step_time_s", "iteration_time"),
    "peak_memory_bytes": ("peak_memory_bytes", "mem_max_allocated_bytes"),
    "step": ("step", "steps", "iteration", "iter", "iterations", "global_step", "train_step", "_step", "train/global_step",
             "trainer/global_step", "num_updates", "global_steps"),
    "consumed_tokens": (
        "consumed_tokens", "tokens", "tokens_seen", "total_tokens", "num_tokens", "num_input_tokens_seen", "ntokens_seen",
        "train/num_tokens", "train/total_tokens", "train/tokens", "train/num_input_tokens_seen", "throughput/total_tokens",
    ),
    "consumed_samples": ("consumed_samples", "consumed_train_samples", "samples_seen", "num_samples"),
    "time_s": ("time_s", "time", "timestamp", "wall_time", "_timestamp"),
}  # fmt: skip
_CANONICAL = {alias: name for name, aliases in _KNOWN.items() for alias in aliases}
LONGEST_NAME = 200


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Sentinel's name for a metric; an unknown name stays as it is, but for spaces and dashes."""
    plain = "_".join(name.strip().lower().replace("-", " ").split())
    if plain in _CANONICAL:
        return _CANONICAL[plain]
    group, _, rest = plain.partition("/")
    if rest and (rest in _CANONICAL or group == rest) and _is_same(group, rest):
        return _CANONICAL.get(rest, rest)
    return name.strip()[:LONGEST_NAME]


def _is_same(group: str, rest: str) -> bool:
    """Megatron's second generation repeats the tag as its group: `grad-norm/grad-norm`, `lm-loss-training/lm loss`."""
    return group.startswith(rest) and group != f"{rest}_validation"
