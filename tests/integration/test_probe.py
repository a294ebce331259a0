"""`sentinel probe` with processes: an unchanged trainer is watched, sealed, started again from its checkpoint, and ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.launcher.process_tree import read_environment, read_processes

TRAINERS = Path(__file__).resolve().parents[1] / "trainers"
MEGATRON_LIKE = [sys.executable, str(TRAINERS / "megatron_like.py"), "--train-iters", "100000", "--lr", "1e-3"]


def probe(cwd: Path, *words: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "sentinel", "probe", *words, "--", *command]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "TMPDIR": str(cwd)}
    return subprocess.run(start, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def left_of(folder: Path) -> list[int]:
    mark = os.fsencode(str(folder))
    return [
        pid for pid, one in read_processes().items() if one.is_living and any(mark in entry for entry in read_environment(pid))
    ]


def test_an_unchanged_trainer_is_watched_sealed_resumed_and_ended(tmp_path: Path) -> None:
    done = probe(tmp_path, "--steps", "10", "--run-dir", "probe", "--json", command=[*MEGATRON_LIKE, "--save", "out"])
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["trainer"] == "megatron"
    assert report["watched"]["rows"] >= 10
    assert {"loss", "grad_norm", "lr"} <= set(report["watched"]["metrics"])
    sealed = [one for one in report["restored"]["checkpoints"] if one["sealed"]]
    assert sealed[0]["step"] == 5  # half of the steps, as asked for
    assert sealed[0]["how"] in ("copy", "reflink")
    assert report["restored"]["resumed"] == {"from_step": 5, "went_on_at": 5, "grade": "observed"}
    assert report["missing"] == []
    assert not (tmp_path / "out").exists()
    assert "--save out is replaced for the probe" in done.stderr
    assert left_of(tmp_path) == [os.getpid()] or left_of(tmp_path) == []


@pytest.mark.slow
def test_a_trainer_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no such option: --save'); sys.exit(2)", "--save", "out", "--lr", "1"]
    done = probe(tmp_path, "--time", "20s", command=command)
    assert done.returncode == 1
    assert "the command ended with 2" in done.stdout
    assert "no such option: --save" in done.stdout
    assert list(tmp_path.iterdir()) == []  # its folder is gone
