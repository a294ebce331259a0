"""Finding and ending processes by descent and by mark, on small trees of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sentinel.launcher import process_tree
from sentinel.launcher.process_tree import (
    Process,
    find_descendants,
    find_living,
    is_same_process,
    kill_until_none,
    read_process,
    send_signal,
    wait_child,
    wait_gone,
)
from sentinel.launcher.process_waits import describe_stuck

MARKS = {"SENTINEL_RUN_DIR": f"/nowhere/{os.getpid()}", "SENTINEL_ATTEMPT": "1"}
# A marked parent with a child in a session of its own that carries no mark; the pipe says when both are there.
FAMILY = """
import subprocess, sys, time
subprocess.Popen(["sleep", "60"], env={"PATH": "/usr/bin:/bin"}, start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", "-c", FAMILY]
    parent = subprocess.Popen(command, env=os.environ | MARKS, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    every = find_living(marks=MARKS)
    yield parent
    for process in every:
        send_signal(process, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()


def test_a_mark_finds_its_processes_and_what_is_below_them(family: subprocess.Popen[bytes]) -> None:
    found = find_living(marks=MARKS)
    assert family.pid in [process.pid for process in found]
    assert len(found) == 2
    assert find_living(marks=MARKS | {"SENTINEL_ATTEMPT": "2"}) == ()


def test_roots_are_not_their_own_descendants(family: subprocess.Popen[bytes]) -> None:
    assert [process.parent for process in find_living(roots=(family.pid,))] == [family.pid]


def test_killing_leaves_none_and_returns_nobody(family: subprocess.Popen[bytes]) -> None:
    every = find_living(marks=MARKS)
    assert kill_until_none(lambda: find_living(marks=MARKS), 5) == ()
    assert not any(is_same_process(process.pid, process.create_time) for process in every)


def test_what_does_not_die_is_returned_when_the_time_is_up() -> None:
    stubborn = Process(2**22 + 5, 1, "D", 1.0)
    assert kill_until_none(lambda: (stubborn,), 0.0) == (stubborn,)


def test_a_process_that_does_not_end_is_named_with_where_it_waits(family: subprocess.Popen[bytes]) -> None:
    there = read_process(family.pid)
    assert there is not None
    words = describe_stuck(there)
    assert words.startswith(f"{family.pid} (python")
    assert f", state {there.state}" in words
    assert describe_stuck(Process(2**22 + 5, 1, "D", 1.0)) == f"{2**22 + 5} (state D)"


def test_a_signal_goes_to_the_process_meant_and_to_no_later_owner_of_its_pid(family: subprocess.Popen[bytes]) -> None:
    now = read_process(family.pid)
    assert now is not None
    earlier = Process(now.pid, now.parent, now.state, now.create_time - 1)
    assert not send_signal(earlier, signal.SIGKILL)
    assert family.poll() is None
    assert send_signal(now, signal.SIGKILL)
    assert wait_gone(now.pid, now.create_time, 5)
    assert not send_signal(now, signal.SIGKILL), "a zombie hears nothing"


def test_a_child_is_waited_for_and_its_status_told() -> None:
    with subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(7)"], stdin=subprocess.PIPE) as child:
        assert wait_child(child, 0.01) is None
        assert child.poll() is None
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert wait_child(child, 60) == 7
    with subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) as killed:
        assert wait_child(killed, 60) == -9


def test_descent_is_followed_over_generations_and_stops_at_strangers() -> None:
    tree = {pid: Process(pid, parent, "S", 1.0) for pid, parent in [(10, 1), (11, 10), (12, 11), (20, 1), (21, 20)]}
    assert find_descendants(tree, [10]) == {11, 12}
    assert find_descendants(tree, [1]) == {10, 11, 12, 20, 21}
    assert find_descendants(tree, []) == set()


def test_a_command_with_brackets_and_blanks_in_its_name_is_read() -> None:
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        with open("/proc/self/comm", "w") as comm:
            comm.write("a) R 1 (b")
        os.write(there, b"x")
        signal.pause()
    os.read(here, 1)
    process = read_process(child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert process is not None
    assert process.parent == os.getpid()
    assert process.is_living


def test_threads_of_the_kernels_own_are_known_and_not_asked_for_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        2: "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0",
        7: "7 (a) b) R 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 250 0 0",
    }
    monkeypatch.setattr(process_tree, "_read_stat", lambda pid: lines[pid].encode())
    assert process_tree.read_process(2) == Process(2, 0, "S", 5 / os.sysconf("SC_CLK_TCK"), None, is_kernels=True)
    assert process_tree.read_process(7) == Process(7, 1, "R", 250 / os.sysconf("SC_CLK_TCK"))
    asked: list[int] = []
    monkeypatch.setattr(process_tree, "read_processes", lambda: {pid: process_tree.read_process(pid) for pid in lines})
    monkeypatch.setattr(process_tree, "is_marked", lambda pid, _: asked.append(pid))
    assert find_living(marks=MARKS) == ()
    assert asked == [7]
