"""The ranks of a torchrun command, started by the keeper itself: as torchrun would start them, and its status in the end."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sentinel.launcher.local import LocalLauncher
from sentinel.model.attempts import AttemptSpec, Exited, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import wait_for

# Each rank says what it was given, and leaves with the code that stands in `leave-RANK`.
TRAINER = """
import json, os, pathlib, sys, time
from sentinel.client import Session
session = Session.from_environment()
session.heartbeat(0, "init")
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "MODE")
print(json.dumps({"argv": sys.argv[1:], "path": sys.path[0], **{name: os.environ.get(name) for name in names}}), flush=True)
leave = pathlib.Path(f"leave-{session.rank}")
while not leave.exists():
    time.sleep(0.01)
sys.exit(int(leave.read_text()))
"""
AGENT = ("env", "MODE=dry", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class World:
    def __init__(self, folder: Path) -> None:
        self.cwd, self.run_dir = folder / "source", folder / "run"
        self.cwd.mkdir()
        self.run_dir.mkdir()
        (self.cwd / "train.py").write_text(TRAINER)
        self.launcher = LocalLauncher(self.run_dir, direct=True)

    def start(self, attempt: int, *words: str) -> AttemptFiles:
        self.launcher.ensure_started(AttemptSpec(attempt, words, str(self.cwd), None, SettingsInForce()))
        return AttemptFiles.of(self.run_dir, attempt)

    def said(self, files: AttemptFiles, ranks: int) -> list[dict[str, Any]]:
        def read() -> list[dict[str, Any]]:
            lines = (files.logs / "launcher.out").read_text().splitlines()
            return [json.loads(line) for line in lines] if len(lines) == ranks else []

        found: list[dict[str, Any]] = wait_for("word of every rank", read)
        return sorted(found, key=lambda one: one["RANK"] or "")

    def leave(self, rank: int, code: int) -> None:
        place = self.cwd / f"leave-{rank}"
        (self.cwd / f"new-{rank}").write_text(str(code))
        os.rename(self.cwd / f"new-{rank}", place)

    def ended(self, attempt: int) -> Exited:
        def seen() -> Exited | None:
            view = self.launcher.observe(attempt)
            return view if isinstance(view, Exited) else None

        found: Exited = wait_for("end of the attempt", seen)
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_every_rank_has_what_torchrun_would_have_given_it_and_all_meet_at_one_port(world: World) -> None:
    files = world.start(1, *AGENT, "train.py", "--steps", "3")
    ranks = world.said(files, 2)
    assert [(one["RANK"], one["LOCAL_RANK"], one["WORLD_SIZE"], one["LOCAL_WORLD_SIZE"]) for one in ranks] == [
        ("0", "0", "2", "2"), ("1", "1", "2", "2"),
    ]  # fmt: skip
    assert {(one["MASTER_ADDR"], one["OMP_NUM_THREADS"], one["MODE"], one["path"], *one["argv"]) for one in ranks} == {
        ("127.0.0.1", "1", "dry", str(world.cwd), "--steps", "3")
    }
    (first,) = {one["MASTER_PORT"] for one in ranks}
    world.leave(0, 0)
    world.leave(1, 0)
    report = world.ended(1).report
    assert (report.command_status, report.first_failed_rank, [rank.code for rank in report.ranks]) == (0, None, [0, 0])
    (second,) = {one["MASTER_PORT"] for one in world.said(world.start(2, *AGENT, "train.py"), 2)}
    assert second != first, "an attempt has a store of its own"
    world.ended(2)


def test_a_rank_that_fails_ends_the_others_and_is_the_first(world: World) -> None:
    world.said(world.start(1, *AGENT, "train.py"), 2)
    world.leave(1, 3)
    report = world.ended(1).report
    assert (report.command_status, report.first_failed_rank) == (1, 1)
    assert [(rank.code, rank.signal) for rank in report.ranks] == [(None, signal.SIGTERM), (3, None)]


def test_what_only_torchrun_can_start_is_started_as_it_stands(world: World) -> None:
    files = world.start(1, *AGENT, "--max-restarts", "2", "train.py")
    wait_for("both ranks", lambda: len(list(files.heartbeats.iterdir())) == 2)
    assert "--max-restarts" in (files.logs / "keeper.err").read_text()
    world.leave(0, 0)
    world.leave(1, 0)
    assert world.ended(1).report.command_status == 0


def test_a_plain_program_is_itself(world: World) -> None:
    world.said(world.start(1, sys.executable, "train.py"), 1)
    world.leave(0, 5)
    assert world.ended(1).report.command_status == 5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--direct", "--", *AGENT, "--nnodes", "2", "train.py"), "it runs on several nodes"),
        (("--direct", "--", "sh", "-c", "true"), "sh is neither a Python nor torchrun"),
        (("--direct", "--trainer", "exit-only", "--", sys.executable, "train.py"), "leave one of the two out"),
    ],
)
def test_what_cannot_be_started_so_is_refused_before_there_is_a_run(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    done = run_sentinel("run", "--run-dir", str(tmp_path / "run"), "--listen", "off", *words)
    assert (done.returncode, "--direct: " in done.stderr, reason in done.stderr) == (2, True, True), done.stderr
    assert not (tmp_path / "run" / "run.json").exists()
