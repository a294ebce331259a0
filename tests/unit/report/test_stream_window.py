"""A stretch of a stream is found by halving, whatever else stands in the stream."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from sentinel.client.run_layout import stream_path
from sentinel.report.stream_window import STEPS_MAX, read_window


def write(run_dir: Path, steps: list[int], dice: random.Random) -> int:
    path = stream_path(run_dir, 1)
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        file.write(json.dumps({"kind": "start", "v": 1, "attempt": 1, "resume_step": 0}) + "\n")
        for step in steps:
            line = {"kind": "step", "step": step, "loss": step / 7, "more": "x" * dice.randrange(2000)}
            file.write(json.dumps(line) + "\n")
            if dice.random() < 0.1:
                file.write(json.dumps({"kind": "event", "event": "checkpoint_committed", "step": max(0, step - 30)}) + "\n")
            if dice.random() < 0.02:
                file.write("{damaged\n")
    return path.stat().st_size


@pytest.mark.parametrize("seed", range(3))
def test_any_stretch_is_whole_and_little_is_read(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    print(f"seed {seed}")
    steps = sorted(dice.sample(range(1, 40_000), 10_000))
    size = write(tmp_path, steps, dice)
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, place: read.append(count) or pread(fd, count, place))
    for first, last in [(1, 10), (steps[-5], 50_000), *((n, n + 60) for n in dice.sample(range(1, 40_000), 8))]:
        found = read_window(tmp_path, 1, first, last)
        assert found == [(step, {"loss": step / 7}) for step in steps if first <= step <= last], (first, last)
    assert size > 9_000_000
    assert sum(read) / 10 < size, "not the whole stream for each"


def test_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    assert read_window(tmp_path, 1, 1, 10) == []
    write(tmp_path, list(range(1, 50)), random.Random(1))
    assert read_window(tmp_path, 1, 10, 9) == []
    assert read_window(tmp_path, 1, 100, 200) == []
    assert len(read_window(tmp_path, 1, -(10**9), 10**9)) <= STEPS_MAX
