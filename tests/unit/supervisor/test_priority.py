"""The supervisor stands back behind what it launches: in its other threads, and in nothing that an action starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.supervisor.priority import NICE, parse_cpus, standing_back

DEADLINE_S = 60.0
NOBODY = 65534

# Run in a process of its own, because only root gets a priority back: what a launched command finds, and what a helper finds.
SCRIPT = """
import os, signal, subprocess, sys, threading
from sentinel.signals import hold_back, let_through
from sentinel.supervisor.priority import standing_back
def look(name):
    text = subprocess.run(["cat", "/proc/self/stat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    stat, told = text.splitlines()[0].rpartition(")")[2].split(), dict(line.split(":", 1) for line in text.splitlines()[1:])
    print(name, stat[16], told["Cpus_allowed_list"].strip(), int(told["SigBlk"], 16), flush=True)
if len(sys.argv) > 1:
    os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
cpus = sorted(os.sched_getaffinity(0))
look("before")
hold_back()
with standing_back(5, str(cpus[0])) as threads:
    let_through()
    helper = threading.Thread(target=look, args=("helper",)); helper.start(); helper.join()
    threads.start(lambda: look("launched"), "acts").join()
    look("own")
"""


def found_by(*words: str) -> dict[str, str]:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, timeout=DEADLINE_S, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority belongs to the process")
@pytest.mark.parametrize("user", ["me", "nobody"])
def test_what_is_launched_has_the_priority_and_the_processors_of_before(user: str) -> None:
    if user == "nobody" and os.geteuid() != 0:
        pytest.skip("only root becomes nobody")
    found = found_by(*([str(NOBODY)] if user == "nobody" else []))
    assert found["launched"] == found["before"]
    first = min(os.sched_getaffinity(0))
    nice = int(found["before"].split()[0])
    for name in ("helper", "own"):
        assert found[name] == f"{min(19, nice + 5)} {first} 0", name


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority belongs to the process")
def test_this_thread_is_as_before_afterwards_where_that_is_allowed() -> None:
    before = os.sched_getaffinity(0)
    with standing_back(0, str(min(before))):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_a_thread_that_cannot_be_started_is_told_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_back(0, None) as threads:

        def none(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none)
            with pytest.raises(RuntimeError, match="can't start"):
                threads.start(lambda: None, "acts")
        masks: list[set[signal.Signals]] = []
        threads.start(lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "acts").join(DEADLINE_S)
        assert masks == [set()]


@pytest.mark.parametrize(("text", "cpus"), [(None, ()), ("0", (0,)), ("0,2-4", (0, 2, 3, 4)), (" 1 , 3", (1, 3))])
def test_processors_are_listed_as_taskset_lists_them(text: str | None, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == frozenset(cpus)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "1,,2", "0-99999", "1.5"])
def test_another_list_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(UsageError, match=r"--pin: .* is no list of processors; write it as in 0,2-5"), standing_back(0, text):
        pass


def test_what_cannot_be_is_refused_before_anything_is_changed() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with pytest.raises(UsageError, match="--nice: 20 is outside of 0 to 19"), standing_back(20, None):
        pass
    with pytest.raises(UsageError, match="--pin: processor 8000 is none that this process may use"), standing_back(NICE, "8000"):
        pass
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
