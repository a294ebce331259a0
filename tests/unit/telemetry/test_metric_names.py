"""What loggers and trainers call a metric. Each name is one that the trainer's own source writes."""

from __future__ import annotations

import pytest

from sentinel.model.metrics import BY_NAME, METRICS
from sentinel.telemetry.metric_names import PLACES, canonical


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lm loss", "loss"),  # Megatron-LM, first generation
        ("lm-loss-training/lm loss", "loss"),  # and second
        ("lm loss validation", "val_loss"),
        ("lm-loss-validation/lm loss validation", "val_loss"),
        ("lm loss validation-0", "val_loss"),  # --multiple-validation-sets
        ("grad-norm/grad-norm", "grad_norm"),
        ("params-norm", "param_norm"),
        ("loss-scale", "loss_scale"),
        ("learning-rate", "lr"),
        ("iteration-time", "step_time_s"),
        ("train/lm_loss", "loss"),  # GPT-NeoX
        ("validation/lm_loss", "val_loss"),
        ("train/learning_rate", "lr"),
        ("loss_metrics/global_avg_loss", "loss"),  # torchtitan
        ("validation_metrics/loss", "val_loss"),
        ("throughput(tps)", "tokens_per_s"),
        ("time_metrics/end_to_end(s)", "step_time_s"),
        ("train_loss_step", "loss"),  # Lightning
        ("lr-AdamW", "lr"),
        ("lr-AdamW/pg1", "lr"),
        ("reduced_train_loss", "loss"),  # NeMo
        ("train_step_timing in s", "step_time_s"),
        ("train/loss", "loss"),  # Hugging Face
        ("eval/loss", "val_loss"),
        ("train/grad_norm", "grad_norm"),
        ("Train/Samples/train_loss", "loss"),  # DeepSpeed's monitor
        ("Train/Samples/lr", "lr"),
        ("Train/Samples/loss_scale", "loss_scale"),
        ("train/CrossEntropyLoss", "loss"),  # OLMo
        ("train/CE loss", "loss"),  # OLMo-core
        ("optim/total grad norm", "grad_norm"),
        ("optim/LR (group 0)", "lr"),
        ("eval/c4_en-validation/CrossEntropyLoss", "val_loss"),
        ("loss/train/total", "loss"),  # Composer
        ("metrics/eval/LanguageCrossEntropy", "val_loss"),
        ("lr-DecoupledAdamW/group0", "lr"),
        ("learning/loss", "loss"),  # MaxText
        ("learning/current_learning_rate", "lr"),
        ("train_inner/gnorm", "grad_norm"),  # fairseq
        ("Tokens/s/device", "tokens_per_s"),  # MaxText
    ],
)
def test_a_name_that_a_trainer_writes(name: str, known: str) -> None:
    assert canonical(name) == known
    assert known in BY_NAME


@pytest.mark.parametrize(
    "name",
    [
        "train_loss_epoch",  # the mean of an epoch, beside the steps
        "loss_metrics/global_max_loss",
        "lm loss validation ppl",
        "lm loss validation-1",  # a further validation set is no second value of the first
        "lr-scale",
        "lr-AdamW/pg2",
        "eval/lr",
        "load_balancing_loss",
        "perf/mfu",
        "train_steps",
    ],
)
def test_what_only_looks_like_one_keeps_its_name(name: str) -> None:
    assert canonical(name) == name


def test_no_name_stands_for_two_things() -> None:
    told = [(alias, name) for name, aliases in PLACES.items() for alias in (name, *aliases)]
    told += [(alias, metric.name) for metric in METRICS for alias in (metric.name, *metric.also)]
    names = [alias for alias, _ in told]
    assert len(names) == len(set(names))
    for alias, name in told:
        if alias not in BY_NAME or not BY_NAME[alias].is_family:
            assert canonical(alias) == name, "written as `canonical` looks it up: lower case, underscores"
