"""The keeper and its launcher where two want the same, or one of them is stuck or gone. Real processes on this machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from sentinel.errors import RetryLater
from sentinel.launcher import local
from sentinel.launcher.keeper import HELD
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import Process
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import Alive, AttemptSpec, Exited, Orphaned, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles
from tests.conformance.launcher_world import Job, LocalWorld, wait_for

ONE = Job()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path)
    yield world
    world.close()


def test_two_threads_that_start_the_same_attempt_start_it_once(world: LocalWorld) -> None:
    spec = world.spec(1, ONE)
    gate = threading.Barrier(4)
    views: list[object] = []

    def start() -> None:
        gate.wait()
        views.append(LocalLauncher(world.run_dir).ensure_started(spec))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    world.until_running(1, ONE)
    assert len({view.keeper_pid for view in views if isinstance(view, Alive)}) == 1
    assert len(views) == 4
    assert world.starts(1) == 1


def _start(run_dir: str, argv: tuple[str, ...], gate: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    LocalLauncher(run_dir).ensure_started(AttemptSpec(1, argv, run_dir, None, SettingsInForce()))


def test_two_processes_that_start_the_same_attempt_start_it_once(world: LocalWorld) -> None:
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(2)
    argv = world.spec(1, ONE).argv
    starters = [context.Process(target=_start, args=(str(world.run_dir), argv, gate)) for _ in range(2)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join(30)
        assert starter.exitcode == 0
    world.until_running(1, ONE)
    assert world.starts(1) == 1


def keeper_command(world: LocalWorld, attempt: int = 1) -> list[str]:
    return [sys.executable, "-m", "sentinel.launcher.keeper", str(world.run_dir), str(attempt)]


def test_a_second_keeper_leaves_at_once_while_the_first_lives_and_after_it(world: LocalWorld) -> None:
    world.launcher().ensure_started(world.spec(1, ONE))
    world.until_running(1, ONE)
    first = (world.folder(1) / "keeper.json").read_text()
    assert subprocess.run(keeper_command(world), timeout=30, check=False).returncode == HELD
    world.launcher().ensure_stopped(1)
    assert subprocess.run(keeper_command(world), timeout=30, check=False).returncode == HELD
    assert (world.folder(1) / "keeper.json").read_text() == first
    assert world.starts(1) == 1


def test_the_lock_is_the_keepers_alone_and_goes_with_it(world: LocalWorld) -> None:
    view = world.launcher().ensure_started(world.spec(1, ONE))
    world.until_running(1, ONE)
    assert isinstance(view, Alive)
    lock = str(world.folder(1) / "keeper.lock")
    for pid in view.pids:
        assert lock not in [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    world.signal_keeper(1, signal.SIGKILL)
    assert world.living(1), "the ranks live on"
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_keeper_survives_the_terminal_and_its_command_hears_signals(world: LocalWorld) -> None:
    view = world.launcher().ensure_started(world.spec(1, ONE))
    assert isinstance(view, Alive)
    keeper = psutil.Process(view.keeper_pid)
    assert os.getsid(keeper.pid) != os.getsid(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        world.signal_keeper(1, number)
    world.until_running(1, ONE)
    assert isinstance(world.launcher().observe(1), Alive)
    ignored = next(line for line in Path(f"/proc/{view.pids[0]}/status").read_text().splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGHUP - 1) | 1 << (signal.SIGTERM - 1))


def _signal_and_look(world: LocalWorld) -> Exited | None:
    """Two signals at once may arrive as one: the next is sent at every look."""
    with contextlib.suppress(psutil.NoSuchProcess):
        world.signal_keeper(1, signal.SIGTERM)
    view = world.launcher().observe(1)
    return view if isinstance(view, Exited) else None


def test_a_second_sigterm_to_the_keeper_kills_everything_and_reports(world: LocalWorld) -> None:
    job = Job(ranks=2, helpers=1, ignores_sigterm=True)
    world.launcher().ensure_started(world.spec(1, job))
    world.until_running(1, job)
    view = wait_for(partial(_signal_and_look, world), "the keeper to take a second SIGTERM")
    report = view.report
    assert [(rank.signal, rank.source) for rank in report.ranks] == [(9, "reaped")] * 2
    assert report.first_failed_rank is None
    assert report.keeper_signal == signal.SIGTERM
    assert world.living(1) == []


def test_sigterm_to_the_keeper_is_handed_on_and_it_waits_for_ranks_that_take_their_time(world: LocalWorld) -> None:
    job = Job(ranks=2, ignores_sigterm=True, leave_with={"all": 6})
    world.launcher().ensure_started(world.spec(1, job))
    world.until_running(1, job)
    world.signal_keeper(1, signal.SIGTERM)
    world.let_leave(1)  # as if its checkpoint were written now
    report = world.until_view(1, Exited).report
    assert [(rank.code, rank.source) for rank in report.ranks] == [(6, "record")] * 2
    assert (report.first_failed_rank, report.keeper_signal) == (None, signal.SIGTERM)
    assert "killed" not in report.reason


def test_a_rank_that_does_not_hear_sigterm_dies_of_it_and_the_rest_is_ended(world: LocalWorld) -> None:
    job = Job(ranks=2, helpers=1)
    world.launcher().ensure_started(world.spec(1, job))
    world.until_running(1, job)
    world.signal_keeper(1, signal.SIGTERM)
    report = world.until_view(1, Exited).report
    assert {rank.signal for rank in report.ranks} <= {signal.SIGTERM, signal.SIGKILL}
    assert report.keeper_signal == signal.SIGTERM
    assert world.living(1) == []


def test_the_launcher_ends_a_keeper_that_waits_for_its_ranks_at_once(world: LocalWorld) -> None:
    job = Job(ranks=2, ignores_sigterm=True)
    world.launcher().ensure_started(world.spec(1, job))
    world.until_running(1, job)
    world.signal_keeper(1, signal.SIGTERM)
    view = world.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert "3 of its processes were killed" in view.report.reason  # the ranks and their launcher


def test_a_stop_that_meets_a_start_on_its_way_ends_the_attempt_before_it_begins(world: LocalWorld) -> None:
    spec = world.spec(1, ONE)
    write_spec(AttemptFiles.of(world.run_dir, 1), spec)
    view = world.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert view.report.reason == "stopped before it was started"
    assert subprocess.run(keeper_command(world), timeout=30, check=False).returncode == HELD
    assert world.launcher().ensure_started(spec) == view
    assert world.starts(1) == 0


def test_a_keeper_that_never_wakes_is_replaced_by_its_launcher(world: LocalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ranks=2, helpers=1)
    world.launcher().ensure_started(world.spec(1, job))
    world.until_running(1, job)
    world.signal_keeper(1, signal.SIGSTOP)
    real = local.send_signal

    def without_continue(process: Process, number: int) -> bool:
        return number == signal.SIGCONT or real(process, number)

    monkeypatch.setattr(local, "send_signal", without_continue)
    monkeypatch.setattr(local, "KEEPER_STOP_S", 0.2)
    monkeypatch.setattr(local, "KEEPER_LAST_S", 0.2)
    view = world.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert "died without a report" in view.report.reason
    assert world.living(1) == []


def test_what_survives_sigkill_is_named_and_tried_later(world: LocalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.launcher().ensure_started(world.spec(1, ONE))
    world.until_running(1, ONE)
    world.signal_keeper(1, signal.SIGKILL)
    immortal = Process(4711, 1, "D", 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(local, "kill_until_none", lambda find, timeout_s: (immortal,))
        with pytest.raises(RetryLater, match=r"survive SIGKILL for 10 s: 4711 \(.*state "):
            world.launcher().ensure_stopped(1)
    assert not (world.folder(1) / "exit.json").exists()


def test_a_keeper_that_dies_before_its_command_leaves_an_attempt_that_has_ended(world: LocalWorld) -> None:
    spec = world.spec(1, ONE)
    write_spec(AttemptFiles.of(world.run_dir, 1), spec)
    dead = subprocess.Popen(["true"])
    dead.wait()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    keeper = {"pid": dead.pid, "create_time": 1.0, "boot_id": boot_id, "started_at": 0.0, "command_pid": None}
    (world.folder(1) / "keeper.json").write_text(json.dumps(keeper))
    assert isinstance(world.launcher().ensure_started(spec), Orphaned)
    assert isinstance(world.launcher().ensure_stopped(1), Exited)
    assert world.starts(1) == 0


def test_a_run_directory_that_cannot_be_written_is_tried_later(tmp_path: Path) -> None:
    with pytest.raises(RetryLater, match="not there"):
        LocalLauncher(tmp_path / "unmounted").ensure_started(LocalWorld(tmp_path).spec(1, ONE))


def test_a_keeper_that_cannot_come_up_says_why_and_nothing_was_started(world: LocalWorld) -> None:
    files = AttemptFiles.of(world.run_dir, 1)
    files.make_folders()
    files.lock.mkdir()  # a lock that cannot be opened
    with pytest.raises(RetryLater, match="cannot"):
        world.launcher().ensure_started(world.spec(1, ONE))
    files.lock.rmdir()
    assert isinstance(world.launcher().ensure_started(world.spec(1, ONE)), Alive)
    wait_for(lambda: world.starts(1) == 1, "the job")
