"""What an attempt is taken for after a reboot, a reused pid, from another machine, or when its files make no sense."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sentinel.launcher import attempt_view
from sentinel.launcher.attempt_view import read_view
from sentinel.launcher.exit_report import write_report
from sentinel.launcher.process_tree import read_boot_id, read_pid_namespace, read_process
from sentinel.model.attempts import Alive, Exited, ExitReport, NotStarted, Orphaned, Unseen
from sentinel.run_files.attempt_files import AttemptFiles


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    return files


def keep(files: AttemptFiles, **changes: Any) -> None:
    """A keeper.json that names this very process, with changes."""
    me = read_process(os.getpid())
    assert me is not None
    keeper = {"pid": me.pid, "create_time": me.create_time, "boot_id": read_boot_id(), "host": socket.gethostname()}
    files.keeper.write_text(json.dumps(keeper | {"started_at": 0.0, "command_pid": None} | changes))


def test_the_process_named_in_keeper_json_is_the_keeper(files: AttemptFiles) -> None:
    keep(files)
    view = read_view(files)
    assert isinstance(view, Alive)
    assert view.keeper_pid == os.getpid()
    assert os.getpid() not in view.pids


def test_whoever_asks_only_whether_it_lives_causes_no_walk_through_all_processes(files: AttemptFiles, monkeypatch) -> None:
    keep(files)
    monkeypatch.setattr(attempt_view, "find_living", None)
    assert read_view(files, with_processes=False) == Alive(files.attempt, os.getpid(), ())


def test_an_exit_record_beside_a_living_keeper_is_believed_when_nothing_lives_below_it(files: AttemptFiles) -> None:
    write_report(files, ExitReport(0, (), None))
    with subprocess.Popen(["sh", "-c", "read line; sleep 600 & echo $!; wait"], stdin=-1, stdout=-1, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        process = read_process(keeper.pid)
        assert process is not None
        keep(files, pid=process.pid, create_time=process.create_time)
        assert isinstance(read_view(files), Exited)
        keeper.stdin.write("begin\n")
        keeper.stdin.flush()
        rank = int(keeper.stdout.readline())
        assert read_view(files) == Alive(1, keeper.pid, (rank,))
        os.kill(rank, signal.SIGKILL)
    files.keeper.write_text("no keeper")
    assert isinstance(read_view(files), Exited)


def test_a_pid_used_again_is_not_the_keeper(files: AttemptFiles) -> None:
    keep(files, create_time=0.01)
    view = read_view(files)
    assert isinstance(view, Orphaned)
    assert view.pids == ()


def test_a_dead_keeper_that_nobody_waited_for_is_dead(files: AttemptFiles) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    seen = read_process(zombie.pid)
    assert seen is not None
    assert (seen.state, seen.ended) == ("Z", 0)
    keep(files, pid=zombie.pid, create_time=seen.create_time)
    assert isinstance(read_view(files), Orphaned)
    zombie.wait()


def test_what_another_container_of_this_machine_began_is_not_dead_while_it_writes(
    files: AttemptFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes are not in our /proc. A container that was started again finds nothing written for a minute."""
    keep(files, create_time=0.01, pid_namespace="pid:[1]")
    assert isinstance(read_view(files), Orphaned), "nothing was written"
    beat = files.heartbeats / "rank-00000.json"
    beat.write_text("{}")
    assert isinstance(read_view(files), Orphaned), "in the first pid namespace every process is seen"
    monkeypatch.setattr(attempt_view, "sees_every_process", lambda: False)
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert "another container" in view.reason
    os.utime(beat, (0.0, 1e9))
    assert isinstance(read_view(files), Orphaned)
    keep(files, create_time=0.01, pid_namespace=read_pid_namespace())
    os.utime(beat)
    assert isinstance(read_view(files), Orphaned), "here its processes would be seen"


def test_after_a_reboot_nothing_of_the_attempt_lives(files: AttemptFiles) -> None:
    keep(files, boot_id="another boot")
    view = read_view(files)
    assert isinstance(view, Orphaned)
    assert (view.pids, "restarted" in view.reason) == ((), True)


def test_a_keeper_on_another_machine_is_unseen_with_a_remedy_and_alive_while_its_lock_is_held(files: AttemptFiles) -> None:
    keep(files, boot_id="another boot", host="node-17")
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert "node-17" in view.reason
    assert str(files.exit) in view.reason
    with open(files.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert isinstance(read_view(files), Alive)


def test_a_held_lock_without_keeper_json_is_a_keeper_that_comes_up(files: AttemptFiles) -> None:
    with open(files.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read_view(files) == Alive(1, 0, ())
    assert read_view(files) == NotStarted(1)


def test_looking_never_takes_the_lock_from_another_who_looks(files: AttemptFiles) -> None:
    with open(files.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert read_view(files) == NotStarted(1)


HUGE = '{"pid":1,"create_time":%s,"boot_id":"x"}' % 10**400
ENDLESS = '{"pid":1e999,"create_time":1,"boot_id":"x"}'
NONSENSE = ["", "[]", "{}", '{"pid":"?"}', '{"pid":1,"create_time":null,"boot_id":"x"}', HUGE, ENDLESS, "[" * 200_000]


@pytest.mark.parametrize("text", NONSENSE, ids=range(len(NONSENSE)))
def test_a_keeper_json_that_makes_no_sense_is_unseen_not_dead(files: AttemptFiles, text: str) -> None:
    files.keeper.write_text(text)
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert "keeper.json" in view.reason


def test_a_broken_report_is_unseen(files: AttemptFiles) -> None:
    files.exit.write_text("{")
    assert isinstance(read_view(files), Unseen)


def test_a_run_directory_that_is_gone_is_unseen_not_an_attempt_never_started(tmp_path: Path) -> None:
    assert isinstance(read_view(AttemptFiles.of(tmp_path / "unmounted", 1)), Unseen)
