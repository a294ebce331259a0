"""A signal reaches the process that was meant, or nobody."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from sentinel.journal.identity import ProcessIdentity, is_alive, read_own_identity, send_signal


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as sleeper:
        yield sleeper
        sleeper.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    return dataclasses.replace(read_own_identity(), pid=process.pid, create_time=psutil.Process(process.pid).create_time())


def test_the_process_that_was_meant_gets_the_signal(process: subprocess.Popen[bytes]) -> None:
    assert is_alive(identity_of(process))
    assert send_signal(identity_of(process), signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("change", [{"create_time": 1000.0}, {"boot_id": "another"}])
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
