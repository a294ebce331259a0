"""New checkpoints are read once behind training: what is found is told and remembered; a helper that is killed costs time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints.memory import memory_path
from sentinel.model.readings import CheckpointRead
from sentinel.telemetry.reading_behind import BehindReader, ReadingStopped, read_line
from sentinel.telemetry.saved_numbers import verify_saved
from sentinel.telemetry.verified_behind import VerifiedBehind
from tests.unit.checkpoints.counted import commit

DEADLINE_S = 60.0


class Later:
    """A clock that stands an hour later than the files that a test has just written."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return time.time() + 3600.0

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.at_s += timeout_s
        return event.is_set()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("sentinel.checkpoints.recall.SystemClock", Later)
    return []


def save(run_dir: Path, step: int, value: float = 1.0) -> Path:
    folder = run_dir / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    save_file({"w": torch.full((1000,), value)}, folder / "a.safetensors")
    (folder / "shard").write_bytes(bytes(range(256)) * 100)
    return commit(run_dir, step)


def reader(run_dir: Path, said: list[str]) -> BehindReader:
    return BehindReader(run_dir, said.append, threading.Event(), Later())


def read(said: list[str]) -> list[CheckpointRead]:
    return [read_line(line) for line in said]


def test_the_newest_is_read_first_and_each_once(tmp_path: Path, said: list[str]) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    behind = reader(tmp_path, said)
    for _ in range(5):
        behind.look()
    assert [one.step for one in read(said)] == [30, 20]
    save(tmp_path, 40)
    behind.look()
    assert [one.step for one in read(said)] == [30, 20, 40]
    assert not memory_path(tmp_path, "step-00000010").exists()
    again = verify_saved(tmp_path, tmp_path / "checkpoints" / "step-00000040", how="remembered").read
    assert again is not None
    assert (again.remembered_files, again.read_bytes) == (2, 0)


def test_what_is_told_is_what_a_resume_would_find(tmp_path: Path, said: list[str]) -> None:
    folder = save(tmp_path, 10)
    reader(tmp_path, said).look()
    found = read(said)[0]
    at_resume = verify_saved(tmp_path, folder)
    assert found.saved is not None
    assert found.saved.read is not None
    assert found.digest == at_resume.digest
    assert (found.saved.values, found.saved.numbers) == (at_resume.values, at_resume.numbers)
    assert found.saved.read.read_files == 2


def test_damage_is_told_and_not_remembered(tmp_path: Path, said: list[str]) -> None:
    folder = save(tmp_path, 10)
    (folder / "shard").write_bytes(bytes(range(256)) * 99 + bytes(256))
    reader(tmp_path, said).look()
    found = read(said)[0]
    assert found.saved is None
    assert "shard: sha256 is" in found.damage


def test_one_that_is_moved_aside_while_it_is_read_is_not_damaged(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path, 10)
    behind = reader(tmp_path, said)
    monkeypatch.setattr(behind, "_progressed", lambda: folder.exists() and folder.rename(tmp_path / "aside") and None)
    behind.look()
    assert said == []


def test_a_checkpoint_that_cannot_be_read_now_is_said_and_tried_again(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 10)
    clock = Later()
    behind = BehindReader(tmp_path, said.append, threading.Event(), clock)

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("sentinel.telemetry.reading_behind.check_bytes", fails)
        behind.look()
    assert said == ["checkpoints/step-00000010 cannot be read behind training (Input/output error): tried again in 60 s"]
    behind.look()
    assert len(said) == 1
    clock.at_s = 61.0
    behind.look()
    assert read_line(said[1]).step == 10


def test_it_ends_when_nobody_wants_to_know(tmp_path: Path, said: list[str]) -> None:
    save(tmp_path, 10)
    stop = threading.Event()
    stop.set()
    with pytest.raises(ReadingStopped):
        BehindReader(tmp_path, said.append, stop, Later()).look()
    assert said == []


def test_a_line_for_people_becomes_a_remark_and_full_starts_nothing(tmp_path: Path) -> None:
    class Told:
        def turn(self, now_s: float) -> list[str]:
            return ["the disk is slow", json.dumps({"step": 3, "digest": "d", "saved": None, "damage": "shard: bad"})]

    source = VerifiedBehind(tmp_path, "remembered")
    source._helper = Told()  # type: ignore[assignment]
    found = source.poll(0.0)
    assert found[0] == CheckpointRead(3, "d", None, "shard: bad")
    assert [one.reason for one in found[1:]] == ["the disk is slow"]  # type: ignore[union-attr]
    assert VerifiedBehind(tmp_path, "full").poll(0.0) == []


def test_the_helper_runs_behind_everything_and_one_that_is_killed_leaves_no_half_memory(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    folder = save(run_dir, 10)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    argv = [sys.executable, "-P", "-m", "sentinel", "checkpoints", "remember", str(run_dir)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        told = read_line(helper.stdout.readline())
        assert told.step == 10
        assert os.sched_getscheduler(helper.pid) == os.SCHED_IDLE
        assert os.getpriority(os.PRIO_PROCESS, helper.pid) == 19
        helper.send_signal(signal.SIGKILL)
        assert helper.wait(DEADLINE_S) == -signal.SIGKILL
    left = [path.name for path in (run_dir / "verified").iterdir()]
    assert left == ["step-00000010.json"]
    again = verify_saved(run_dir, folder, how="remembered").read
    assert again is not None
    assert again.remembered_files == 2
    shutil.rmtree(run_dir / "verified")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        helper.stdout.readline()
        helper.stdin.close()
        assert helper.wait(DEADLINE_S) == 0, "nobody holds its standard input: it has done what it was asked"
