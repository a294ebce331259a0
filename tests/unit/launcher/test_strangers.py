"""Processes that carry a run's mark and that nothing in its directory names: nothing is launched, nor moved, beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sentinel.errors import GiveUp, RetryLater
from sentinel.journal.lease import Lease, read_lease
from sentinel.journal.run_file import PolicyReference, RunFile
from sentinel.journal.run_lock import RunLock
from sentinel.launcher.attempt_view import find_orphans
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.spec_file import read_launch, write_spec
from sentinel.launcher.strangers import find_before_launch, find_strangers
from sentinel.model.actions import InspectSamples, Quarantine, StartAttempt
from sentinel.model.attempts import AttemptSpec, NotStarted, SampleRange, SettingsInForce, Unseen
from sentinel.model.state import Attempt, RunState
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.supervisor.handlers import build_handlers
from sentinel.supervisor.strangers import tell_strangers

Begin = Callable[..., int]
WAITS = "import sys; print(flush=True); sys.stdin.read()"
# It starts its child and leaves it to whoever takes orphans: this is how a trainer stands whose supervisor was killed.
LEAVES = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-I', '-S', '-c', sys.argv[1]]).pid, flush=True)"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts a process of attempt N of the run in `tmp_path`, which is not below this one."""
    pipes: list[int] = []

    def begin(attempt: int, *, errors: BinaryIO | None = None, is_marked: bool = True, **more: str) -> int:
        read, write = os.pipe()
        pipes.append(write)
        mark = AttemptFiles.of(tmp_path, attempt).environment
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LEAVES, WAITS], env=os.environ | (mark if is_marked else {}) | more,
            stdin=read, stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as parent:  # fmt: skip
            os.close(read)
            assert parent.stdout is not None
            said = sorted([parent.stdout.readline(), parent.stdout.readline()])  # the child may be quicker than who tells its pid
            assert said[0] == "\n"
        return int(said[1])

    yield begin
    for pipe in pipes:
        os.close(pipe)


def pids(run_dir: Path, *known: int) -> list[int]:
    return [stranger.pid for stranger in find_strangers(run_dir, known)]


def test_what_carries_the_mark_is_a_stranger_unless_its_attempt_is_known(tmp_path: Path, begin: Begin) -> None:
    pid = begin(2)
    assert pids(tmp_path) == pids(tmp_path, 1) == [pid]
    assert pids(tmp_path, 2) == []
    (tmp_path / "other").mkdir()
    assert pids(tmp_path / "other") == []


def test_another_launch_of_a_known_number_is_a_stranger(tmp_path: Path, begin: Begin) -> None:
    of_today, of_before = begin(2, SENTINEL_LAUNCH="today"), begin(2, SENTINEL_LAUNCH="before")
    write_spec(AttemptFiles.of(tmp_path, 2), spec(2, "today"))
    assert pids(tmp_path, 2) == [of_before]
    assert sorted(pids(tmp_path)) == sorted([of_today, of_before])


def test_what_has_lost_its_mark_is_known_by_the_logs_that_it_writes(tmp_path: Path, begin: Begin) -> None:
    """It wrote over its environment, or it was started while the run directory had another path."""
    files = AttemptFiles.of(tmp_path, 2)
    files.make_folders()
    with open(files.launcher_err, "wb") as errors:
        pid = begin(2, errors=errors, is_marked=False)
    assert pids(tmp_path) == pids(tmp_path, 1) == [pid]
    assert pids(tmp_path, 2) == []
    assert [process.pid for process in find_orphans(files)] == [pid]
    assert find_orphans(AttemptFiles.of(tmp_path, 1)) == ()
    tmp_path.rename(moved := tmp_path.with_name(f"{tmp_path.name}-moved"))
    try:
        assert pids(moved) == [pid]
    finally:
        moved.rename(tmp_path)


def test_what_the_supervisor_started_is_no_stranger(tmp_path: Path) -> None:
    mark = AttemptFiles.of(tmp_path, 1).environment
    command = [sys.executable, "-I", "-S", "-c", WAITS]
    with subprocess.Popen(command, env=os.environ | mark, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as below:
        assert below.stdout is not None
        assert below.stdout.readline()
        assert pids(tmp_path) == []
        below.communicate()


def test_the_mark_without_an_attempt_is_no_trainers(tmp_path: Path, begin: Begin) -> None:
    begin(1, SENTINEL_RUN_DIR=str(tmp_path / "elsewhere"))
    assert pids(tmp_path) == []


def test_a_second_ask_for_what_was_launched_is_the_launchers_business(tmp_path: Path, begin: Begin) -> None:
    begin(2)
    files = AttemptFiles.of(tmp_path, 2)
    assert find_before_launch(tmp_path, 2)
    files.make_folders()
    files.keeper.write_text("{}")
    assert find_before_launch(tmp_path, 2) == ()


def test_a_job_whose_submission_nobody_could_note_is_of_its_attempt(tmp_path: Path, begin: Begin) -> None:
    begin(2, SENTINEL_LAUNCH="today")
    write_spec(AttemptFiles.of(tmp_path, 2), spec(2, "today"))
    assert find_before_launch(tmp_path, 2) == ()


def spec(attempt: int, launch: str | None = None) -> AttemptSpec:
    return AttemptSpec(attempt, ("true",), "/", None, SettingsInForce(), launch=launch)


@pytest.fixture
def handlers(tmp_path: Path) -> Iterator[Any]:
    run = RunFile("r", ("true",), "/", PolicyReference("default.yaml", "d", "default"), "local", "2026-11-20T00:00:00+00:00")
    with RunLock.acquire(tmp_path) as lock:
        lease = Lease.publish(lock, 1)
        yield build_handlers(tmp_path, LocalLauncher(tmp_path), lease, run, lambda page: "", frozenset())


def test_nothing_is_launched_beside_a_stranger_and_the_lease_shuts_it_out(tmp_path: Path, handlers: Any, begin: Begin) -> None:
    pid = begin(2, SENTINEL_LAUNCH="before")
    start = StartAttempt("start/2", 2, None, SettingsInForce())
    with pytest.raises(RetryLater, match=rf"attempt 2 is not launched: .*SENTINEL_ATTEMPT=2.*kill {pid}$"):
        handlers[StartAttempt](start)
    assert isinstance(LocalLauncher(tmp_path).observe(2), NotStarted)
    lease = read_lease(tmp_path)
    assert lease is not None
    assert lease.attempt == 2
    assert lease.launch not in (None, "before")


def test_nor_an_inspection(handlers: Any, begin: Begin, tmp_path: Path) -> None:
    begin(1)
    with pytest.raises(RetryLater, match="attempt 2 is not launched"):
        handlers[InspectSamples](InspectSamples("inspect/2", 1, 0, 2, None, SettingsInForce(), (), SampleRange(0, 1), 9.0))


def test_an_attempt_is_launched_under_a_word_of_its_own_and_asked_again_under_the_same(tmp_path: Path, handlers: Any) -> None:
    start = StartAttempt("start/1", 1, None, SettingsInForce())
    handlers[StartAttempt](start)
    launch, lease = read_launch(AttemptFiles.of(tmp_path, 1)), read_lease(tmp_path)
    assert launch is not None
    assert lease is not None
    assert lease.launch == launch
    handlers[StartAttempt](start)
    assert read_launch(AttemptFiles.of(tmp_path, 1)) == launch
    assert read_lease(tmp_path) == lease
    LocalLauncher(tmp_path).ensure_stopped(1)


def test_no_checkpoint_is_moved_beside_a_stranger(tmp_path: Path, handlers: Any, begin: Begin) -> None:
    (tmp_path / "checkpoints/step-00000100").mkdir(parents=True)
    pid = begin(7)
    with pytest.raises(RetryLater, match=f"no checkpoint is moved: .*kill {pid}$"):
        handlers[Quarantine](Quarantine("quarantine/2", 1, 50, "a test"))
    assert (tmp_path / "checkpoints/step-00000100").is_dir()


def test_no_checkpoint_is_moved_under_an_attempt_that_lives(tmp_path: Path, handlers: Any) -> None:
    """Whatever the journal knows of it: one that lost its end asked for this beside the attempt that it had forgotten."""
    (tmp_path / "checkpoints/step-00000100").mkdir(parents=True)
    launcher = LocalLauncher(tmp_path)
    launcher.ensure_started(AttemptSpec(1, ("sleep", "600"), "/", None, SettingsInForce(), launch="here"))
    try:
        with pytest.raises(GiveUp, match="no checkpoint is moved while attempt 1 is alive"):
            handlers[Quarantine](Quarantine("quarantine/2", 2, 50, "a test"))
    finally:
        launcher.ensure_stopped(1)
    assert (tmp_path / "checkpoints/step-00000100").is_dir()
    handlers[Quarantine](Quarantine("quarantine/2", 2, 50, "a test"))
    assert not (tmp_path / "checkpoints/step-00000100").exists()


def test_nor_under_one_that_may_live_elsewhere(tmp_path: Path, handlers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkpoints/step-00000100").mkdir(parents=True)
    AttemptFiles.of(tmp_path, 1).make_folders()
    unseen = Unseen(1, "its ranks write heartbeats on n2", has_ended_here=True)
    monkeypatch.setattr(LocalLauncher, "observe", lambda self, attempt: unseen)
    with pytest.raises(GiveUp, match="while attempt 1 may live: its ranks write heartbeats on n2"):
        handlers[Quarantine](Quarantine("quarantine/2", 2, 50, "a test"))
    assert (tmp_path / "checkpoints/step-00000100").is_dir()


def test_they_are_named_when_a_run_is_taken_over(tmp_path: Path, begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    pid = begin(2)
    tell_strangers(tmp_path, RunState())
    assert f"kill {pid}" in capsys.readouterr().err
    tell_strangers(tmp_path, RunState(attempts=(Attempt(2, 0.0, None, SettingsInForce(), ""),)))
    assert capsys.readouterr().err == ""
