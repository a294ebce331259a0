"""What the loop hears of its saves, and what becomes of a checkpoint that is to rot."""

import json

import pytest

from tests.unit.trainer.in_process import train_here
from trainer.checkpoint.verifying import verify
from trainer.exits import DataError


def test_a_checkpoint_that_is_to_rot_has_rotted_before_the_next_step(tmp_path, world, monkeypatch):
    """Else a fault of the next steps may end the process first, and the checkpoint stays whole."""
    words = ["--preset", "micro", "--set", "schedule.steps=3", "checkpoint.every=1", "evaluation.every=0"]
    train_here(world, monkeypatch, tmp_path, *words, "--fault", "bit_rot@step=2")
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    order = [
        (line["kind"] == "step", line["step"])
        for line in lines
        if line["kind"] == "step" or line.get("event") == "checkpoint_committed"
    ]
    assert order.index((False, 2)) < order.index((True, 3))
    with pytest.raises(DataError):
        verify(tmp_path / "checkpoints" / "step-00000002")
