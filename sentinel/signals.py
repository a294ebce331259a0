"""Signals before there is a handler for them, and a bell that a handler may ring: threads that wait for an event hear it.

The handler cannot set the event itself. Setting takes the event's lock, and the thread that the handler interrupts may be holding
that very lock, just beginning to wait: then both wait for ever.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME_S = 2.0
"""So long after a SIGTERM another is the same: a scheduler that ends a job signals every process of it, and scripts and keepers
pass on to their children what those have got already."""

EXIT_INTERRUPTED = 130
"""What every command ends with that Ctrl-C ended, whether it was waiting for that or was in the middle of something."""

HELD = (  # what a scheduler, a terminal that goes away or a person may send to a supervisor
    signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP,
)  # fmt: skip


def hold_back() -> None:
    """From now on they wait for `let_through`, in place of ending a process that has not got to its handlers yet."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)


def let_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


@contextmanager
def held_back() -> Iterator[None]:
    """Until the end, or an earlier `let_through`. What a caller left blocked, every program that it starts would never hear."""
    hold_back()
    try:
        yield
    finally:
        let_through()


@contextmanager
def interrupt_deferred() -> Iterator[None]:
    """Around the start of processes of Python: Ctrl-C is raised behind it. Their mask blocks it until they `let_through`, having
    a handler for it. In the main thread; another one hears no signals. (Blocking it here alone is not enough: any other thread
    takes it then, and the main thread raises it.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with held_back():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


class Interrupts:
    """Whether SIGINT has asked this process to leave what it goes on with. Handlers note it; the command line asks in the end."""

    def __init__(self) -> None:
        self.came = False


INTERRUPTS = Interrupts()


class WakeOnSignal:
    """`ring` sets the events, from a thread of its own between `start` and `close`."""

    def __init__(self, *events: threading.Event) -> None:
        self.events = list(events)
        self._rung: queue.SimpleQueue[bool] = queue.SimpleQueue()  # its put may interrupt anything, itself included

    def ring(self) -> None:
        self._rung.put(True)

    def start(self) -> None:
        threading.Thread(target=self._listen, name="sentinel-signals", daemon=True).start()

    def close(self) -> None:
        self._rung.put(False)

    def _listen(self) -> None:
        while self._rung.get():
            for event in self.events:
                event.set()


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, for a command that goes on until it is interrupted. In another thread than the main
    one, which hears no signals, only an event."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    waker = WakeOnSignal(stop)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        INTERRUPTS.came |= number == signal.SIGINT
        waker.ring()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    waker.start()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        waker.close()
