"""Heartbeats from what the kernel shows of a process that writes none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel.trainers.life import Life
from tests.integration.supervised import wait_for

WAITS = "import sys; print('up', flush=True); sys.stdin.read()"
WORKS = "print('up', flush=True)\nwhile True: pass"


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    children: list[subprocess.Popen[bytes]] = []

    def begin(program: str, **environment: str) -> int:
        words = [sys.executable, "-c", program]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment})
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child.pid

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def beat(run_dir: Path, rank: int = 0) -> dict[str, Any]:
    return json.loads((run_dir / f"attempts/0001/heartbeats/rank-{rank:05d}.json").read_text())


def test_who_waits_long_after_a_step_is_within_one(tmp_path: Path, start: Callable[..., int]) -> None:
    life = Life(tmp_path, 1, start(WAITS))
    life.turn(is_saving=False, now_s=1.0)
    assert beat(tmp_path)["phase"] == "init"
    life.row(7, 2.0)
    life.turn(is_saving=False, now_s=3.0)
    assert (beat(tmp_path)["step"], beat(tmp_path)["phase"]) == (7, "idle"), "it may be anywhere"
    life.turn(is_saving=True, now_s=5.0)
    assert beat(tmp_path)["phase"] == "checkpoint"
    life.turn(is_saving=True, now_s=50.0)
    assert beat(tmp_path)["phase"] == "checkpoint", "an upload uses no processor"
    life.turn(is_saving=False, now_s=60.0)
    assert beat(tmp_path)["phase"] == "forward"
    life.row(8, 61.0)
    life.turn(is_saving=False, now_s=62.0)
    assert beat(tmp_path)["phase"] == "idle"


def test_rows_that_are_far_apart_let_it_wait_longer(tmp_path: Path, start: Callable[..., int]) -> None:
    life = Life(tmp_path, 1, start(WAITS))
    for at_s, step in ((0.0, 100), (60.0, 200)):
        life.row(step, at_s)
        life.turn(is_saving=False, now_s=at_s + 1.0)
    life.turn(is_saving=False, now_s=200.0)
    assert beat(tmp_path)["phase"] == "idle", "three rows would take 180 s"
    life.turn(is_saving=False, now_s=250.0)
    assert beat(tmp_path)["phase"] == "forward"


def test_who_is_stopped_is_within_a_step_at_once(tmp_path: Path, start: Callable[..., int]) -> None:
    pid = start(WORKS)
    life = Life(tmp_path, 1, pid)
    life.row(7, 1.0)
    life.turn(is_saving=False, now_s=2.0)
    os.kill(pid, signal.SIGSTOP)
    wait_for("stopped process", lambda: " T " in Path(f"/proc/{pid}/stat").read_text())
    life.turn(is_saving=True, now_s=4.0)
    assert beat(tmp_path)["phase"] == "forward"


def test_who_works_before_the_first_step_says_so_and_who_waits_does_not(tmp_path: Path, start: Callable[..., int]) -> None:
    pids = {"works": start(WORKS), "waits": start(WAITS)}
    told: dict[str, float] = {}
    for name, pid in pids.items():
        life = Life(tmp_path / name, 1, pid)
        life.turn(is_saving=False, now_s=1.0)
        first = beat(tmp_path / name)["time_s"]
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[11])
        if name == "works":
            wait_for("processor time", lambda pid=pid, ticks=ticks: _used(pid) > ticks + 150)
        life.turn(is_saving=False, now_s=40.0)
        told[name] = beat(tmp_path / name)["time_s"] - first
    assert told["works"] > 0
    assert told["waits"] == 0


def _used(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[11])


def test_each_rank_has_a_heartbeat_of_its_own(tmp_path: Path, start: Callable[..., int]) -> None:
    program = (
        "import subprocess, sys, os\n"
        f"ranks = [subprocess.Popen([sys.executable, '-c', {WAITS!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE,\n"
        "  env={**os.environ, 'RANK': str(rank)}) for rank in (0, 1)]\n"
        "[rank.stdout.readline() for rank in ranks]\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()"
    )
    life = Life(tmp_path, 1, start(program))
    life.turn(is_saving=False, now_s=1.0)
    assert beat(tmp_path, 0)["pid"] != beat(tmp_path, 1)["pid"]
