"""A signal reaches the process that was meant, or nobody."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from sentinel.journal import identity
from sentinel.journal.identity import ProcessIdentity, is_alive, read_own_identity, send_signal
from sentinel.launcher.process_tree import read_process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as sleeper:
        yield sleeper
        sleeper.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    seen = read_process(process.pid)
    assert seen is not None
    return dataclasses.replace(read_own_identity(), pid=process.pid, create_time=0.0, since_boot_s=seen.create_time)


def older(who: ProcessIdentity) -> ProcessIdentity:
    """As a version wrote it that knew the wall clock alone."""
    created = psutil.Process(who.pid).create_time()
    return dataclasses.replace(who, create_time=created, since_boot_s=None, pid_namespace="")


def test_the_process_that_was_meant_gets_the_signal(process: subprocess.Popen[bytes]) -> None:
    assert is_alive(identity_of(process))
    assert send_signal(identity_of(process), signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("change", [{"since_boot_s": 1.0}, {"boot_id": "another"}, {"pid_namespace": "pid:[1]"}])
def test_a_process_that_only_has_the_pid_is_left_alone(process: subprocess.Popen[bytes], change: dict[str, object]) -> None:
    other = dataclasses.replace(identity_of(process), **change)  # type: ignore[arg-type]
    assert not is_alive(other)
    assert not send_signal(other, signal.SIGKILL)
    assert process.poll() is None


def test_a_dead_process_is_not_alive_before_or_after_it_is_reaped(process: subprocess.Popen[bytes]) -> None:
    who = identity_of(process)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the process table
    assert psutil.pid_exists(process.pid)
    assert not is_alive(who)
    assert not send_signal(who, signal.SIGTERM)
    process.wait(30)
    assert not is_alive(who)
    assert not send_signal(who, signal.SIGTERM)


@pytest.mark.parametrize("pid", [2**22 + 1, 2**40])
def test_a_pid_that_cannot_be_is_not_alive(pid: int) -> None:
    nobody = dataclasses.replace(read_own_identity(), pid=pid)
    assert not is_alive(nobody)
    assert not send_signal(nobody, signal.SIGTERM)


def test_of_an_older_version_a_process_that_started_by_another_clock_may_be_the_one(process: subprocess.Popen[bytes]) -> None:
    who = older(identity_of(process))
    assert is_alive(who) is True
    stepped = dataclasses.replace(who, create_time=who.create_time + 3600.0)
    assert is_alive(stepped) is None, "the clock was set, or the pid is another's"
    assert not send_signal(stepped, signal.SIGKILL)
    process.kill()
    process.wait(30)
    assert is_alive(stepped) is False


def test_a_process_of_another_boot_or_container_cannot_be_seen(process: subprocess.Popen[bytes]) -> None:
    for change in ({"boot_id": "another"}, {"pid_namespace": "pid:[1]"}):
        assert is_alive(dataclasses.replace(identity_of(process), **change)) is None  # type: ignore[arg-type]


def test_a_process_that_proc_hides_is_not_dead(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    who = identity_of(process)
    monkeypatch.setattr(identity, "read_process", lambda pid: None)
    assert is_alive(who) is None
    process.kill()
    process.wait(30)
    assert is_alive(who) is False
