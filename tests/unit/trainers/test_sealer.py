"""What the follower knows of a save that is under way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel.client.stream import Stream
from sentinel.trainers.loading import load_profile
from sentinel.trainers.sealer import Sealer
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.start import prepare


def test_a_save_is_under_way_until_a_later_step_comes_and_those_of_before_the_run_are_none(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    run_dir.mkdir()
    (root / "iter_0000900").mkdir(parents=True)
    (root / "iter_0000900" / "state").write_text("of another run")
    (root / "latest_checkpointed_iteration.txt").write_text("900")
    spec = TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True)
    prepare(run_dir, 1, spec)
    sealer, stream = Sealer(run_dir, 1, spec), Stream(tmp_path / "metrics.jsonl", 1)
    sealer.turn(stream, None, 1e9)
    assert not sealer.has_saved(0)
    (root / "iter_0000020").mkdir()  # begun, and not whole
    sealer.turn(stream, None, 2e9)
    assert sealer.has_saved(20)
    assert not sealer.has_saved(21), "a step has come since"
    assert not sealer.has_saved(900)


def test_one_that_cannot_be_looked_at_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "ck"
    run_dir.mkdir()
    (root / "iter_0000020").mkdir(parents=True)
    os.mkfifo(root / "iter_0000020" / "pipe")
    sealer = Sealer(run_dir, 1, TrainerSpec(load_profile(f"megatron:root={root}"), ("train",), {}, "/", root, {}, None, True))
    stream = Stream(tmp_path / "metrics.jsonl", 1)
    for now_s in (1e9, 2e9):
        sealer.turn(stream, None, now_s)
    assert capfd.readouterr().err.count("iter_0000020: cannot be looked at, so it is not sealed") == 1
