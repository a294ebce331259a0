"""A signal handler rings while the thread it interrupts holds the event's lock."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.report.reading import read_run

PROGRAM = """
import os, signal, threading
{setup}
    with stop._cond:  # as if interrupted where Event.wait begins
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(30)
print("heard")
"""
BY_HAND = """
from sentinel.signals import WakeOnSignal
stop = threading.Event()
waker = WakeOnSignal(stop)
waker.start()
signal.signal(signal.SIGINT, lambda *_: waker.ring())
if stop:"""
WATCH = """
from sentinel.signals import stop_event
with stop_event() as stop:"""


@pytest.mark.parametrize("setup", [BY_HAND, WATCH], ids=["by hand", "sentinel watch"])
def test_it_is_heard_by_the_thread_it_interrupted(setup: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(setup=setup)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr


EARLY = """
import os, signal, sys
import sentinel.signals as signals
hold_back = signals.hold_back
def hold_and_be_hit():
    hold_back()
    os.kill(os.getpid(), {number})
signals.hold_back = hold_and_be_hit
sys.argv = ["sentinel", "run", "--listen", "off", "--run-dir", {run_dir!r}, "--", "sleep", "600"]
from sentinel.cli import main
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "ended"),
    [
        (signal.SIGTERM, 130, "stopped"),
        pytest.param(signal.SIGINT, 130, "stopped", marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, 75, "suspended", marks=pytest.mark.slow),
    ],
)
def test_one_that_comes_before_the_handlers_launches_nothing_and_has_its_code(
    tmp_path: Path, number: int, code: int, ended: str
) -> None:
    program = EARLY.format(number=int(number), run_dir=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (code, "")
    state = read_run(tmp_path / "run").state
    assert (state.ended, state.attempts) == (ended, ())
