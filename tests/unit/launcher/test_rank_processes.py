"""Real processes: stopped, sleeping in Python, waiting in a collective's module, and one that would not survive the signal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentinel.client.stacks import STACK_SIGNAL
from sentinel.launcher.rank_processes import Frame, ask_for_stack, catches, judge_stack, read_stack, read_state

MARKS = {"SENTINEL_RUN_DIR": "/runs/a", "SENTINEL_ATTEMPT": "3"}
OFFERS = """
import sys, threading
from pathlib import Path
from sentinel.client.stacks import offer_stacks
def idle(): threading.Event().wait()
def works():
    print(offer_stacks(Path(sys.argv[1])), flush=True)
    sys.stdin.read()
threading.Thread(target=idle, daemon=True).start()
works()
"""
PLAIN = "import sys; print(0, flush=True); sys.stdin.read()"


@contextmanager
def rank(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | MARKS
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process:
            process.said = process.stdout.readline().strip()  # type: ignore[attr-defined]
            yield process
            process.kill()
    finally:
        process.kill()


def until_written(path: Path) -> None:
    """A dump comes a moment after the signal: wait for the file to grow, at most as long as a loaded machine may take."""
    for _ in range(3000):
        if path.stat().st_size > 0 and "in <module>" in path.read_text():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("no stack was written within 30 s")


def test_a_stopped_process_is_seen_so_and_strangers_are_not_looked_at() -> None:
    with rank(PLAIN) as process:
        assert read_state(process.pid, MARKS) is not None
        assert read_state(process.pid, MARKS)[0] == "runs"  # type: ignore[index]
        assert read_state(process.pid, MARKS | {"SENTINEL_ATTEMPT": "4"}) is None
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        seen = read_state(process.pid, MARKS)
        assert seen is not None
        assert seen[0] == "stopped"
    assert read_state(process.pid, MARKS) is None  # gone
    assert read_state(os.getpid(), MARKS) is None


def test_the_stack_of_a_rank_is_written_when_asked_for_and_read_from_its_main_thread(tmp_path: Path) -> None:
    path = tmp_path / "stacks" / "rank-00000.txt"
    with rank(OFFERS, str(path)) as process:
        assert process.said == str(STACK_SIGNAL)  # type: ignore[attr-defined]
        assert read_stack(path) == ()
        assert not ask_for_stack(process.pid, STACK_SIGNAL, MARKS | {"SENTINEL_ATTEMPT": "4"})
        assert ask_for_stack(process.pid, STACK_SIGNAL, MARKS)
        until_written(path)
        stack = read_stack(path)
        assert [frame.function for frame in stack] == ["works", "<module>"]
        doing, where = judge_stack(stack)
        assert (doing, where.partition(" ")[2]) == ("works", "in works")
        assert read_stack(path, path.stat().st_size) == ()  # nothing newer
        assert process.poll() is None


def test_a_process_without_a_handler_is_left_alone() -> None:
    with rank(PLAIN) as process:
        assert not catches(process.pid, STACK_SIGNAL)
        assert not ask_for_stack(process.pid, STACK_SIGNAL, MARKS)
        assert not ask_for_stack(process.pid, 0, MARKS)
        assert not ask_for_stack(process.pid, 99, MARKS)
        assert process.poll() is None


def test_a_stack_in_a_collective_waits_and_one_behind_its_own_code_works() -> None:
    torch = "/venv/site-packages/torch"
    gather = [Frame(f"{torch}/distributed/distributed_c10d.py", 4394, "all_gather"), Frame("/train/step.py", 9, "step")]
    deep = [Frame(f"{torch}/utils/_contextlib.py", 124, "decorate"), *gather]
    hooked = [Frame("/train/model.py", 5, "forward"), Frame(f"{torch}/nn/modules/module.py", 1, "inner"), *gather]
    assert judge_stack(tuple(gather)) == ("waits", "distributed_c10d.py:4394 in all_gather")
    assert judge_stack(tuple(deep))[0] == "waits"
    assert judge_stack(tuple(hooked)) == ("works", "model.py:5 in forward")


def test_who_waits_in_native_code_is_not_said_to_work() -> None:
    """DDP waits for the others inside `backward`, and a synchronisation waits for whatever its GPU waits for."""
    torch = "/venv/site-packages/torch"
    backward = (Frame(f"{torch}/autograd/graph.py", 829, "_engine_run_backward"), Frame("/train/step.py", 9, "step"))
    assert judge_stack(backward) == ("runs", "graph.py:829 in _engine_run_backward")
    assert judge_stack((Frame(f"{torch}/cuda/__init__.py", 1040, "synchronize"), Frame("/train/step.py", 9, "step")))[0] == "runs"
    hook = (Frame("/train/hooks.py", 3, "clip"), *backward)
    assert judge_stack(hook) == ("works", "hooks.py:3 in clip")
