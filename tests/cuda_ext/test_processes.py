"""Programs are ended with all that they have started, at a deadline, by a person, or because another has failed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuda_ext.processes import Completed, Programs

# What it starts holds its output open: who waited for that would wait a minute.
TREE = ("sh", "-c", "echo begun; sleep 60 & echo $! > child; touch started; wait")


def is_gone(pid: int) -> bool:
    """Ended; an orphan may wait for init to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20.0
    while not so() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert so()


def assert_child_is_gone(folder: Path) -> None:
    """Soon: its output is closed a moment before it has ended."""
    pid = int((folder / "child").read_text())
    wait_until(lambda: is_gone(pid))


def test_a_program_ends_with_its_code_and_all_it_said() -> None:
    assert Programs().run(["sh", "-c", "echo one; echo two >&2; cat; exit 3"], 20.0) == Completed(3, "one\ntwo\n")


def test_at_its_deadline_it_is_ended_with_all_it_has_started(tmp_path: Path) -> None:
    began_s = time.monotonic()
    assert Programs().run(TREE, 0.5, folder=tmp_path) == Completed(None, "begun\n")
    assert time.monotonic() - began_s < 20.0
    assert_child_is_gone(tmp_path)


def test_all_are_ended_together_and_none_is_started_afterwards(tmp_path: Path) -> None:
    programs = Programs()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(programs.run, TREE, 60.0, None, tmp_path)
        wait_until((tmp_path / "started").exists)
        programs.end_all()
        assert future.result(20.0) == Completed(-signal.SIGKILL, "begun\n")
    assert_child_is_gone(tmp_path)
    assert programs.run(["sh", "-c", "exit 0"], 20.0).code == -signal.SIGKILL


def test_a_person_who_interrupts_leaves_nothing_running(tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_until((tmp_path / "started").exists)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    watching = threading.Thread(target=interrupt)
    try:
        watching.start()
        with pytest.raises(KeyboardInterrupt):
            Programs().run(TREE, 60.0, folder=tmp_path)
    finally:
        watching.join()
        signal.signal(signal.SIGINT, before)
    assert_child_is_gone(tmp_path)


def test_what_is_no_program_is_an_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        Programs().run(["/no/such/program"], 1.0)
