"""A reserve of real processes and no torch: handed over, killed at every place, out of date, out of memory."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.reserve import Reserve
from sentinel.launcher.spec_file import write_spec
from sentinel.launcher.strangers import find_strangers
from sentinel.model.attempts import Alive, AttemptSpec, Exited, Orphaned, SettingsInForce
from sentinel.model.environment import Environment
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.warm_standing import WarmStanding, read_warm
from sentinel.supervisor.priority import standing_back
from tests.integration.supervised import wait_for

# It beats as a rank does, says what it was given, and stays until it is told to leave with a code (`leave`), or by SIGTERM.
TRAINER = """
import json, os, pathlib, sys, time
import helper
from sentinel.client import Session
session = Session.from_environment()
session.heartbeat(0, "init")
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "SENTINEL_ATTEMPT", "SENTINEL_WARM_ROOM")
said = {name: os.environ.get(name) for name in names}
child = os.popen("echo $SENTINEL_ATTEMPT").read().strip()
said |= {"argv": sys.argv, "name": __name__, "helper": helper.VALUE, "path": sys.path[0], "child": child}
print(json.dumps(said), flush=True)
leave = pathlib.Path(sys.argv[1]) / f"leave-{session.rank}"
while not leave.exists():
    time.sleep(0.01)
sys.exit(int(leave.read_text()))
"""
PLAIN = (sys.executable, "train.py", ".")
AGENT = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", ".")
RAN = Environment((("train.py", "1"),), (), "CPython", (), (), (), ())


class World:
    def __init__(self, folder: Path) -> None:
        self.cwd, self.run_dir = folder / "source", folder / "run"
        self.cwd.mkdir()
        self.run_dir.mkdir()
        (self.cwd / "train.py").write_text(TRAINER)
        (self.cwd / "helper.py").write_text("VALUE = 1\n")
        self.free: float | None = 0.5
        self.reserve = Reserve(self.run_dir, free=lambda: self.free)
        self.launcher = LocalLauncher(self.run_dir, reserve=self.reserve)

    def spec(self, attempt: int, argv: tuple[str, ...], environment: Environment = RAN) -> AttemptSpec:
        return AttemptSpec(attempt, argv, str(self.cwd), None, SettingsInForce(), environment=environment)

    def offer(self, argv: tuple[str, ...], modules: tuple[str, ...] = ("helper",)) -> World:
        """Attempt 1 has been launched with this command, and its trainer offers these imports."""
        files = AttemptFiles.of(self.run_dir, 1)
        write_spec(files, self.spec(1, argv))
        (files.folder / "warm.json").write_text(json.dumps({"v": 1, "modules": list(modules)}))
        self.reserve.look(0.0, 1, is_settled=True)
        return self

    def look(self) -> WarmStanding:
        self.reserve.look(1.0, 1, is_settled=True)
        found = read_warm(self.run_dir)
        assert found is not None
        return found

    def until(self, state: str) -> WarmStanding:
        found: WarmStanding = wait_for(f"a reserve that is {state}", lambda: (s := self.look()).state == state and s)
        return found

    def start(self, argv: tuple[str, ...], environment: Environment = RAN) -> str:
        self.launcher.ensure_started(self.spec(2, argv, environment))
        found = read_warm(self.run_dir)
        assert found is not None
        return found.last

    def said(self) -> list[dict[str, Any]]:
        path = AttemptFiles.of(self.run_dir, 2).logs / "launcher.out"
        if not path.exists():  # its keeper was killed before it had come so far
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]

    def all_said(self, ranks: int) -> list[dict[str, Any]]:
        wait_for("the word of each rank", lambda: len(self.said()) == ranks)
        return sorted(self.said(), key=lambda one: one["RANK"] or "")

    def leave(self, rank: int, code: int) -> None:
        (self.cwd / f"leave-{rank}.new").write_text(str(code))
        (self.cwd / f"leave-{rank}.new").rename(self.cwd / f"leave-{rank}")

    def report(self) -> Any:
        view = wait_for("the end of the attempt", lambda: isinstance(v := self.launcher.observe(2), Exited) and v)
        return view.report

    def processes(self, word: str = "") -> list[int]:
        """Of the reserve, by what they run and where."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            ours = any("reserve_keeper" in one or "warm_rank.py" in one for one in words) and process.info["status"] != "zombie"
            if ours and any(word in one for one in words) and self._is_here(process):
                found.append(process.pid)
        return found

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            return process.cwd() == str(self.cwd) or self._is_here_below(process)
        except psutil.Error:
            return False

    def _is_here_below(self, process: psutil.Process) -> bool:
        return any(child.cwd() == str(self.cwd) for child in process.children())

    def end(self) -> None:
        self.reserve.close()
        self.launcher.ensure_stopped(2)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.end()
    wait_for("the end of the reserve's processes", lambda: not world.processes())


def test_two_ranks_are_handed_the_attempt(world: World) -> None:
    standing = world.offer(AGENT).until("ready")
    assert (standing.ranks, standing.ready) == (2, 2)
    assert standing.memory_bytes > 1 << 20
    assert find_strangers(world.run_dir) == (), "before its turn it is of no attempt"
    warm = set(world.processes("warm_rank.py"))
    assert world.start((*AGENT, "more")) == "attempt 2: warm"
    first, second = world.all_said(2)
    assert (first["RANK"], first["LOCAL_RANK"], first["WORLD_SIZE"], second["RANK"]) == ("0", "0", "2", "1")
    assert first["MASTER_PORT"] == second["MASTER_PORT"] != "29500"
    assert (first["SENTINEL_ATTEMPT"], first["child"], first["SENTINEL_WARM_ROOM"]) == ("2", "2", None)
    assert (first["argv"], first["name"], first["path"]) == (["train.py", ".", "more"], "__main__", str(world.cwd))
    view = world.launcher.observe(2)
    assert isinstance(view, Alive)
    assert warm <= set(view.pids)
    assert all(is_marked(pid, AttemptFiles.of(world.run_dir, 2).environment) for pid in warm)
    for rank in (0, 1):
        world.leave(rank, 0)
    report = world.report()
    assert (report.command_status, report.first_failed_rank) == (0, None)
    assert [(rank.rank, rank.code, rank.source) for rank in report.ranks] == [(0, 0, "reaped"), (1, 0, "reaped")]


def test_when_one_rank_fails_the_other_is_asked_to_leave(world: World) -> None:
    world.offer(AGENT).until("ready")
    world.start(AGENT)
    world.all_said(2)
    world.leave(1, 7)
    report = world.report()
    assert (report.command_status, report.first_failed_rank) == (1, 1)
    assert {rank.rank: rank.code or rank.signal for rank in report.ranks} == {0: signal.SIGTERM, 1: 7}


def test_a_command_without_torchrun_is_one_rank_that_is_told_none(world: World) -> None:
    world.offer(PLAIN).until("ready")
    assert world.start(PLAIN) == "attempt 2: warm"
    (said,) = world.all_said(1)
    assert (said["RANK"], said["MASTER_PORT"]) == (None, None)
    world.leave(0, 6)
    assert world.report().command_status == 6


def test_code_that_changed_on_disk_is_started_cold(world: World) -> None:
    world.offer(PLAIN).until("ready")
    (world.cwd / "helper.py").write_text("VALUE = 22\n")
    last = world.start(PLAIN)
    assert "cold" in last
    assert "helper.py is not the file any more" in last
    assert world.all_said(1)[0]["helper"] == 22


def test_another_environment_is_started_cold(world: World) -> None:
    world.offer(PLAIN).until("ready")
    assert "others than those" in world.start(PLAIN, replace(RAN, code=(("train.py", "2"),)))
    assert world.all_said(1)


def test_another_command_is_started_cold(world: World) -> None:
    world.offer(PLAIN).until("ready")
    assert "another one than that" in world.start((sys.executable, "-B", *PLAIN[1:]))
    assert world.all_said(1)


def test_a_reserve_that_hangs_is_not_waited_for(world: World) -> None:
    (world.cwd / "stuck.py").write_text("import time\nwhile True: time.sleep(9)\n")
    world.offer(PLAIN, ("stuck",))
    wait_for("a rank that comes up", lambda: world.processes("warm_rank.py"))
    assert "not ready yet" in world.start(PLAIN)
    assert world.all_said(1)
    wait_for("the end of the reserve", lambda: not world.processes())


def test_an_import_that_fails_makes_no_reserve(world: World) -> None:
    (world.cwd / "broken.py").write_text("raise SystemExit('no')\n")
    assert "import broken: SystemExit: no" in world.offer(PLAIN, ("broken",)).until("none").why


@pytest.mark.parametrize("struck", ["warm_rank.py", "reserve_keeper"])
def test_sigkill_before_the_launch_throws_the_reserve_away(world: World, struck: str) -> None:
    world.offer(AGENT).until("ready")
    os.kill(world.processes(struck)[0], signal.SIGKILL)
    assert "ended" in world.until("none").why
    wait_for("the end of all others", lambda: not world.processes())
    assert "ended" in world.start(PLAIN)
    assert world.all_said(1), "and the launch is a cold one"


def test_the_end_of_the_supervisor_ends_the_reserve(world: World) -> None:
    """A supervisor that is killed closes its socket by that."""
    world.offer(AGENT).until("ready")
    assert world.processes()
    held = world.reserve._held
    assert held is not None
    held.line.close()
    wait_for("the end of the reserve", lambda: not world.processes())
    world.reserve._held = None


def test_ranks_outlive_a_keeper_that_is_killed_and_are_found_by_their_mark(world: World) -> None:
    world.offer(AGENT).until("ready")
    world.start(AGENT)
    world.all_said(2)
    view = world.launcher.observe(2)
    assert isinstance(view, Alive)
    os.kill(view.keeper_pid, signal.SIGKILL)
    orphaned = wait_for("orphans", lambda: isinstance(v := world.launcher.observe(2), Orphaned) and v)
    assert set(world.processes("warm_rank.py")) <= set(orphaned.pids)
    assert len(orphaned.pids) >= 2
    assert isinstance(world.launcher.ensure_stopped(2), Exited)
    assert not world.processes()


def test_memory_that_is_short_makes_none_and_gives_one_back(world: World) -> None:
    world.free = None
    assert "unknown" in world.offer(PLAIN).look().why
    assert not world.processes()
    world.free = 0.5
    world.reserve.look(100.0, 1, is_settled=True)
    world.until("ready")
    world.free = 0.05
    assert "memory was short" in world.look().why
    wait_for("the end of the reserve", lambda: not world.processes())


def test_a_trainer_that_offers_nothing_is_started_as_ever(world: World) -> None:
    write_spec(AttemptFiles.of(world.run_dir, 1), world.spec(1, PLAIN))
    assert "offers no imports" in world.look().why
    assert "offers no imports" in world.start(PLAIN)
    assert world.all_said(1)


def test_a_trainer_under_a_profile_is_started_by_its_profile(world: World) -> None:
    files = AttemptFiles.of(world.run_dir, 1)
    write_spec(files, replace(world.spec(1, PLAIN), trainer={"argv": list(PLAIN)}))
    (files.folder / "warm.json").write_text(json.dumps({"v": 1, "modules": ["helper"]}))
    assert "its profile" in world.look().why
    assert not world.processes()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority belongs to the process")
def test_ranks_in_reserve_have_the_priority_of_ranks(world: World) -> None:
    """They are started from the loop, which stands back, and without privileges nobody could give them theirs again."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with standing_back(4, None) as threads:
        world.reserve.start_thread = threads.start
        world.offer(PLAIN).until("ready")
        waiting = world.processes("warm_rank")
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in waiting] == [nice] != []
