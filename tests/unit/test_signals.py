"""A signal handler rings while the thread it interrupts holds the event's lock."""

import subprocess
import sys

import pytest

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
from sentinel.replay.follow import _stop_signals
with _stop_signals() as stop:"""


@pytest.mark.parametrize("setup", [BY_HAND, WATCH], ids=["by hand", "sentinel watch"])
def test_it_is_heard_by_the_thread_it_interrupted(setup: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(setup=setup)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr
