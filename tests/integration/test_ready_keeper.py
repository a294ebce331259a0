"""A keeper that is ready: handed an attempt, ended before it, stopped while it is handed one, left alone by its supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sentinel.launcher import keeper_line
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.ready_keeper import AGAIN_S, ReadyKeeper
from sentinel.launcher.strangers import find_strangers
from sentinel.model.attempts import Alive, Exited
from tests.conformance.launcher_world import Job, LocalWorld, wait_for

ONE = Job()
NAME = "READY_KEEPERS_OF"


class World(LocalWorld):
    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        self.ready = ReadyKeeper(frozenset({"SENTINEL_PAGERDUTY_KEY"}))

    def launcher(self) -> LocalLauncher:
        return LocalLauncher(self.run_dir, ready=self.ready)

    def waiting(self) -> list[int]:
        """Whose starter is gone by now: it is the keeper itself that is seen. Those of other tests carry another name."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            with suppress(psutil.Error):
                is_one = "sentinel.launcher.reserve_keeper" in (process.info["cmdline"] or ()) and process.ppid() != os.getpid()
                if is_one and process.status() != "zombie" and process.environ().get(NAME) == str(self.run_dir):
                    found.append(process.pid)
        return found

    def one_waits(self) -> int:
        """Its starter has two names for a moment: a child that has not become the leader of its session is none yet."""

        def look() -> int:
            found = self.waiting()
            return found[0] if len(found) == 1 and os.getsid(found[0]) == found[0] else 0

        return int(wait_for(look, "a keeper that is ready"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(NAME, str(tmp_path))
    world = World(tmp_path)
    yield world
    world.ready.close()
    world.close()
    wait_for(lambda: not world.waiting(), "the end of every keeper")


def test_it_is_made_when_the_run_has_settled_and_keeps_the_next_attempt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", "only-for-the-supervisor")
    monkeypatch.setenv("SENTINEL_ATTEMPT", "99")
    world.ready.look(0.0, 1, is_settled=False)
    assert world.waiting() == []
    world.ready.look(1.0, 1, is_settled=True)
    pid = world.one_waits()
    world.ready.look(2.0, 1, is_settled=True)
    assert world.waiting() == [pid], "one is enough"
    carried = {"SENTINEL_PAGERDUTY_KEY", "SENTINEL_ATTEMPT"} & set(psutil.Process(pid).environ())
    assert carried == set(), "it belongs to no attempt, and has none of the supervisor's secrets"
    view = world.launcher().ensure_started(world.spec(1, ONE))
    assert isinstance(view, Alive)
    assert view.keeper_pid == pid
    world.until_running(1, ONE)
    assert all(is_marked(process, {"SENTINEL_ATTEMPT": "1"}) for process in view.pids)
    assert find_strangers(world.run_dir, (1,)) == ()
    world.let_leave(1)
    world.until_view(1, Exited)
    assert world.starts(1) == 1


def test_one_that_somebody_ended_costs_the_start_of_another_keeper(world: World) -> None:
    world.ready.begin()
    pid = world.one_waits()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not world.waiting(), "its end")
    view = world.launcher().ensure_started(world.spec(1, ONE))
    assert isinstance(view, Alive)
    assert view.keeper_pid != pid
    world.until_running(1, ONE)
    assert world.starts(1) == 1


def test_one_that_somebody_ended_is_made_again_a_minute_later(world: World) -> None:
    world.ready.look(0.0, 1, is_settled=True)
    os.kill(world.one_waits(), signal.SIGKILL)
    wait_for(lambda: not world.waiting(), "its end")
    world.ready.look(1.0, 1, is_settled=True)
    world.ready.look(0.9 + AGAIN_S, 1, is_settled=True)
    assert world.waiting() == []
    world.ready.look(1.0 + AGAIN_S, 1, is_settled=True)
    world.one_waits()


def test_one_that_does_not_answer_finds_the_attempt_taken_when_it_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_line, "ANSWER_S", 0.05)
    world.ready.begin()
    pid = world.one_waits()
    os.kill(pid, signal.SIGSTOP)
    view = world.launcher().ensure_started(world.spec(1, ONE))
    assert isinstance(view, Alive)
    assert view.keeper_pid != pid
    world.until_running(1, ONE)
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not world.waiting(), "the end of the one that came late")
    assert world.starts(1) == 1


def test_it_ends_with_its_supervisor_and_once_it_keeps_it_does_not(world: World) -> None:
    world.ready.begin()
    world.one_waits()
    world.ready.close()
    wait_for(lambda: not world.waiting(), "its end")
    world.ready.begin()
    assert world.waiting() == [], "nobody starts one for a supervisor that leaves"
    another = ReadyKeeper()
    another.begin()
    view = LocalLauncher(world.run_dir, ready=another).ensure_started(world.spec(1, ONE))
    another.close()
    world.until_running(1, ONE)
    assert isinstance(view, Alive)
    assert isinstance(world.observe(1), Alive)
