"""Evaluation, and whoever else draws random numbers, must not change training: a known way to lose weeks."""

import torch

from tests.unit.trainer.in_process import train_here
from trainer import train as training

HOSTS_OWN = ("time_s", "step_time_s", "data_time_s", "tokens_per_s", "peak_memory_bytes", "val_loss")


def trained(world, monkeypatch, out_dir, *, evaluate_every, global_seed):
    """Six steps with dropout: step lines, held-out losses, weights and moments."""
    sizes = "schedule.steps=6", "data.batch_size=4", "data.seq_len=16", "evaluation.batches=2", "model.dropout=0.2"
    torch.manual_seed(global_seed)
    words = "--preset", "micro", "--set", *sizes, f"evaluation.every={evaluate_every}"
    run, lines = train_here(world, monkeypatch, out_dir, *words)
    step_lines = [{name: value for name, value in line.items() if name not in HOSTS_OWN} for line in lines]
    live = run.optimizer.state()
    state = {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in live.items()}
    assert training._evaluate(run) == training._evaluate(run), "held-out loss is measured without dropout"
    return step_lines, [line["val_loss"] for line in lines if "val_loss" in line], state


def test_evaluating_after_every_step_and_another_global_seed_change_no_bit_of_training(world, monkeypatch, tmp_path):
    never, last, plain = trained(world, monkeypatch, tmp_path / "never", evaluate_every=0, global_seed=0)
    always, losses, evaluated = trained(world, monkeypatch, tmp_path / "always", evaluate_every=1, global_seed=1)
    assert (len(last), len(losses)) == (1, 6)
    assert never == always
    assert last == losses[-1:]
    assert plain.keys() == evaluated.keys()
    assert all(torch.equal(plain[name], evaluated[name]) for name in plain)
