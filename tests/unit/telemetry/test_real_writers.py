"""TensorBoard files of trainers, written here by the library they use, under the tags that their sources write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.model.metrics import BY_NAME
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.metric_names import PLACES

pytest.importorskip("torch.utils.tensorboard", reason="torch and tensorboard write the files that are read here")

STEPS = 30
MEGATRON = {
    "learning-rate": "lr",
    "batch-size": "batch-size",
    "lm loss": "loss",
    "loss-scale": "loss_scale",
    "world-size": "world-size",
    "grad-norm": "grad_norm",
    "num-zeros": "num-zeros",
    "params-norm": "param_norm",
    "iteration-time": "step_time_s",
    "lm loss validation": "val_loss",
    "lm loss validation ppl": "lm loss validation ppl",
}
TORCHTITAN = {
    "loss_metrics/global_avg_loss": "loss",
    "loss_metrics/global_max_loss": "loss_metrics/global_max_loss",
    "grad_norm": "grad_norm",
    "n_tokens_seen": "consumed_tokens",
    "throughput(tps)": "tokens_per_s",
    "time_metrics/end_to_end(s)": "step_time_s",
    "validation_metrics/loss": "val_loss",
}
LIGHTNING = {"train_loss_step": "loss", "lr-AdamW": "lr", "grad_norm": "grad_norm", "val_loss": "val_loss", "epoch": "epoch"}
NEMO = {
    "reduced_train_loss": "loss",
    "lr": "lr",
    "grad_norm": "grad_norm",
    "consumed_samples": "consumed_samples",
    "train_step_timing in s": "step_time_s",
    "val_loss": "val_loss",
}
HUGGING_FACE = {"train/loss": "loss", "train/grad_norm": "grad_norm", "train/learning_rate": "lr", "eval/loss": "val_loss"}
DEEPSPEED = {"Train/Samples/train_loss": "loss", "Train/Samples/lr": "lr", "Train/Samples/loss_scale": "loss_scale"}


# Megatron's later versions write every tag behind a group of its own name.
MEGATRON_GROUPED = {f"{tag.replace(' ', '-')}/{tag}": name for tag, name in MEGATRON.items() if tag != "lm loss"}
MEGATRON_GROUPED["lm-loss-training/lm loss"] = "loss"


@pytest.mark.parametrize(
    "tags",
    [MEGATRON, MEGATRON_GROUPED, TORCHTITAN, LIGHTNING, NEMO, HUGGING_FACE, DEEPSPEED],
    ids=["megatron", "megatron-grouped", "torchtitan", "lightning", "nemo", "hugging-face", "deepspeed"],
)
def test_the_tags_of_a_trainer(tmp_path: Path, tags: dict[str, str]) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, STEPS + 1):
            for place, (tag, name) in enumerate(tags.items()):
                writer.add_scalar(tag, place + 1 / step, step)
                if name == "loss":
                    writer.add_scalar(f"{tag} vs samples", place + 1 / step, 512 * step)
    found, reader = open_log(tmp_path)
    rows = list(read_to_end(reader))
    assert (found, reader.damaged, [row.step for row in rows]) == ("tensorboard", 0, list(range(1, STEPS + 1)))
    for place, (tag, name) in enumerate(tags.items()):
        if name not in BY_NAME and name not in PLACES:
            continue  # no metric of ours
        for row in rows:
            assert row.metrics[name] == pytest.approx(place + 1 / row.step), tag
