"""One name per quantity, whatever another trainer calls it: detectors know `loss`, `grad_norm`, `loss_scale`, `lr`, `val_loss`.

What a metric is called elsewhere stands with the metric itself (`also` and `tag` in `model/metrics.py`); here stand the columns
that are no metrics, and the groups that loggers put in front (`train/`, `eval/`).

>>> canonical("lm-loss-training/lm loss"), canonical("Grad Norm"), canonical("eval/loss"), canonical("lr-AdamW"), canonical("mfu")
('loss', 'grad_norm', 'val_loss', 'lr', 'mfu')
"""

from __future__ import annotations

import re
from functools import lru_cache

from sentinel.model.metrics import METRICS

PLACES = {
    "step": (
        "steps", "iteration", "iter", "iterations", "global_step", "train_step", "_step", "train/global_step",
        "trainer/global_step", "num_updates", "global_steps", "current_steps",
    ),
    "consumed_tokens": (
        "tokens", "tokens_seen", "total_tokens", "num_tokens", "num_input_tokens_seen", "ntokens_seen", "n_tokens_seen",
        "train/num_tokens", "train/total_tokens", "train/tokens", "train/num_input_tokens_seen", "throughput/total_tokens",
    ),
    "consumed_samples": ("consumed_train_samples", "samples_seen", "num_samples"),
    "skipped_samples": ("skipped_train_samples",),
    "time_s": ("time", "timestamp", "wall_time", "_timestamp"),
}  # fmt: skip
"""Where a row stands in its run. Not judged; other runs are compared by it."""


def _plain(name: str) -> str:
    return "_".join(name.strip().lower().replace("-", " ").split())


_METRICS = {
    alias: metric.name
    for metric in METRICS
    if not metric.is_family
    for alias in (metric.name, *metric.also, *((_plain(metric.tag),) if metric.tag else ()))
}
_CANONICAL = {alias: name for name, aliases in PLACES.items() for alias in (name, *aliases)} | _METRICS
TRAINED = frozenset({"train", "training", "trainer", "train_inner", "learning", "optim", "optimizer", "metrics"})
HELD_OUT = frozenset({"val", "valid", "validation", "eval", "evaluation", "validation_metrics"})
LOSSES = ("loss", "val_loss")
LONGEST_NAME = 200
GROUPS_MAX = 3
_LIGHTNING_RATE = re.compile(r"lr-[A-Z]\w*(?:/(?:pg1|group0))?")
"""Lightning's and Composer's monitors name the learning rate after the optimizer's class, and its first group."""


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Sentinel's name for a metric; an unknown name stays as it is."""
    stripped = name.strip()
    if _LIGHTNING_RATE.fullmatch(stripped):
        return "lr"
    plain = _plain(name)
    return _CANONICAL.get(plain) or _in_groups(plain) or stripped[:LONGEST_NAME]


def _in_groups(plain: str) -> str | None:
    """The metric behind the groups in front of it; None where it is not known so."""
    held_out = False
    for _ in range(GROUPS_MAX):
        group, slash, rest = plain.partition("/")
        if not slash and plain.startswith("train_"):
            group, rest = "train", plain.removeprefix("train_")
        if not rest:
            return None
        known = _METRICS.get(rest)
        if known is not None and _is_repeated(group, rest):
            return known
        held_out = held_out or group in HELD_OUT
        if not held_out and group not in TRAINED:
            return None
        if known is not None:
            return known if not held_out else "val_loss" if known in LOSSES else None
        plain = rest
    return None


def _is_repeated(group: str, rest: str) -> bool:
    """Megatron's second generation repeats the tag as its group: `grad-norm/grad-norm`, `lm-loss-training/lm loss`."""
    return group.startswith(rest) and group != f"{rest}_validation"
