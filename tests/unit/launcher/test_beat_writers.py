"""A rank that shows neither its mark nor its output is found by the heartbeat file that it has open; nobody else is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.run_layout import rank_file
from sentinel.errors import NotYet
from sentinel.launcher import beat_writers
from sentinel.launcher.attempt_view import find_orphans, read_view
from sentinel.launcher.beat_writers import find_beat_writers, find_beating_on
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import read_boot_id, read_process
from sentinel.model.attempts import Exited, Orphaned
from sentinel.run_files.attempt_files import AttemptFiles

OPENS = """
import os, sys, time
handle = os.open(sys.argv[1], int(sys.argv[2]))
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", *sys.argv[1:]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""

Start = Callable[..., tuple[int, str]]


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    return files


@pytest.fixture
def start() -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def start(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-I", "-S", "-c", *words]
        process = subprocess.Popen(command, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None
        return process.pid, process.stdout.readline().strip()

    yield start
    for process in begun:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def beat(files: AttemptFiles, pid: int, rank: int = 0, **changes: Any) -> str:
    path = rank_file(files.heartbeats, rank)
    value = {"step": 1, "phase": "forward", "time_s": 1.0, "pid": pid, "host": socket.gethostname(), "boot_id": read_boot_id()}
    path.write_text(json.dumps(value | changes))
    return str(path)


def lose_keeper(files: AttemptFiles, command_pid: int | None = None) -> None:
    """A keeper.json of this boot whose pid is another's by now."""
    keeper = {"pid": os.getpid(), "create_time": 0.01, "boot_id": read_boot_id(), "host": socket.gethostname()}
    files.keeper.write_text(json.dumps(keeper | {"started_at": 0.0, "command_pid": command_pid}))


def test_a_rank_that_has_its_heartbeat_open_is_ended_with_the_command_above_it(files: AttemptFiles, start: Start) -> None:
    path = beat(files, 0)
    parent, child = start(PARENT, OPENS, path, str(os.O_WRONLY))
    beat(files, int(child))
    lose_keeper(files, parent)
    assert [process.pid for process in find_orphans(files)] == sorted([parent, int(child)])
    view = read_view(files)
    assert isinstance(view, Orphaned)
    assert view.pids == tuple(sorted([parent, int(child)]))
    assert isinstance(LocalLauncher(files.run_dir).ensure_stopped(1), Exited)
    for pid in (parent, int(child)):
        process = read_process(pid)
        assert process is None or not process.is_living


def test_whom_a_heartbeat_names_without_proof_is_no_rank(files: AttemptFiles, start: Start, monkeypatch) -> None:
    path = beat(files, 0)
    reader, _ = start(OPENS, path, str(os.O_RDONLY))
    beat(files, reader)
    lose_keeper(files, reader)
    assert find_beat_writers(files, reader) == frozenset()
    assert find_orphans(files) == ()
    other, _ = start(OPENS, path, str(os.O_WRONLY))  # it writes, and another is named
    assert find_beat_writers(files) == frozenset()
    beat(files, other, boot_id="another boot")
    assert find_beat_writers(files) == frozenset()
    beat(files, reader)
    monkeypatch.setattr(beat_writers, "QUIET_S", 0.0)
    assert isinstance(LocalLauncher(files.run_dir).ensure_stopped(1), Exited), "its heartbeat is silent"
    process = read_process(reader)
    assert process is not None
    assert process.is_living


def test_a_heartbeat_that_goes_on_without_a_process_known_to_write_it_keeps_the_attempt_from_ending(
    files: AttemptFiles, start: Start, monkeypatch
) -> None:
    path = beat(files, 0)
    unsure, _ = start(OPENS, path, str(os.O_RDONLY))
    beat(files, unsure)
    lose_keeper(files)
    steps = iter(range(2, 1000))
    monkeypatch.setattr(beat_writers.time, "sleep", lambda _: beat(files, unsure, step=next(steps)))
    assert find_beating_on(files, frozenset()) == 0
    with pytest.raises(NotYet, match="attempt 1: the heartbeat of rank 0 goes on changing"):
        LocalLauncher(files.run_dir).ensure_stopped(1)
    assert not files.exit.exists()
    assert find_beating_on(files, frozenset({unsure})) is None, "it was seen to be the attempt's, and was ended"


def test_a_pid_that_was_used_again_since_the_last_beat_is_not_waited_for(files: AttemptFiles, start: Start, monkeypatch) -> None:
    path = beat(files, 0)
    later, _ = start(OPENS, path, str(os.O_RDONLY))
    beat(files, later)
    os.utime(path, (1.0, 1.0))

    def sleep(_: float) -> None:
        raise AssertionError("waited")

    monkeypatch.setattr(beat_writers.time, "sleep", sleep)
    assert find_beating_on(files, frozenset()) is None
