"""Evaluation, and whoever else draws random numbers, must not change training: a known way to lose weeks."""

import json
import signal

import torch

from trainer import train as training
from trainer.command_line import parse_arguments

TIMES = ("step_time_s", "data_time_s", "tokens_per_s", "val_loss")


def trained(world, monkeypatch, out_dir, *, evaluate_every, global_seed):
    """Six steps with dropout, in this process: step lines, final held-out loss, weights and moments."""
    runs = []
    build = training.build_run
    monkeypatch.setattr(training, "join_world", lambda *_: world)
    monkeypatch.setattr(training, "build_run", lambda *given: runs.append(build(*given)) or runs[-1])
    sizes = "schedule.steps=6", "data.batch_size=4", "data.seq_len=16", "evaluation.batches=2", "model.dropout=0.2"
    words = ["--preset", "micro", "--set", *sizes, f"evaluation.every={evaluate_every}", "--out-dir", str(out_dir)]
    before = signal.getsignal(signal.SIGTERM)
    torch.manual_seed(global_seed)
    try:
        assert training.train(parse_arguments(words), None) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
        monkeypatch.undo()
    (manifest,) = (out_dir / "checkpoints").glob("*/manifest.json")
    lines = json.loads(manifest.read_text())["recent"]
    told = [{name: value for name, value in line.items() if name not in TIMES} for line in lines]
    live = runs[0].optimizer.state()
    state = {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in live.items()}
    assert training._evaluate(runs[0]) == training._evaluate(runs[0]), "held-out loss is measured without dropout"
    return told, [line["val_loss"] for line in lines if "val_loss" in line], state


def test_evaluating_after_every_step_and_another_global_seed_change_no_bit_of_training(world, monkeypatch, tmp_path):
    never, last, plain = trained(world, monkeypatch, tmp_path / "never", evaluate_every=0, global_seed=0)
    always, losses, evaluated = trained(world, monkeypatch, tmp_path / "always", evaluate_every=1, global_seed=1)
    assert (len(last), len(losses)) == (1, 6)
    assert never == always
    assert last == losses[-1:]
    assert plain.keys() == evaluated.keys()
    assert all(torch.equal(plain[name], evaluated[name]) for name in plain)
