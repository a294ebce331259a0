"""The supervisor stands back behind the ranks: a lower priority, and, where it is asked for, processors of its own.

On Linux both belong to a thread and not to a process, and what a thread starts inherits them. Nobody but root gets back a
priority that was given away. So a thread that was started before stays as the process was: it starts the threads that carry out
actions, and through them everything that is launched. Ranks have the priority and the processors that `sentinel run` was started
with. Whatever the other threads start (helpers that look at disks and GPUs, trackers, the mirror) stands back with them.

    with standing_back(nice=5, pin="0-1") as threads:
        threads.start(run, "sentinel-acts")      # as it was before
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from sentinel.errors import UsageError
from sentinel.signals import let_through

NICE = 5  # a third of a rank's share of a processor that both want; a sleeper that wakes still gets it at once
NICE_MAX = 19
CPUS_MAX = 8192
IS_PER_THREAD = sys.platform == "linux"
_Ask = tuple[Callable[[], None], str, "queue.SimpleQueue[threading.Thread | BaseException]"]


class ThreadStarter:
    """Starts threads from a thread of its own, whose priority and processors nobody changes. They are daemons, and so is it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[_Ask | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="sentinel-starts", daemon=True).start()

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        """Raises RuntimeError where the system gives no more threads."""
        answer: queue.SimpleQueue[threading.Thread | BaseException] = queue.SimpleQueue()
        self._asked.put((run, name, answer))
        started = answer.get()
        if isinstance(started, BaseException):
            raise started
        return started

    def close(self) -> None:
        self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            run, name, answer = asked
            let_through()  # the command line held signals back when this thread began; what is launched would inherit that
            thread = threading.Thread(target=run, name=name, daemon=True)
            try:
                thread.start()
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                answer.put(error)
            else:
                answer.put(thread)


@contextmanager
def standing_back(nice: int | None, pin: str | None) -> Iterator[ThreadStarter]:
    """This thread, and what is started from it, stands back; gives what starts threads that do not. `nice`: beyond what this
    thread has; None: NICE. `pin`: as `parse_cpus`. Raises UsageError for what is none of that, before anything is changed."""
    more, cpus = check_nice(nice), parse_cpus(pin)
    if cpus:
        check_cpus(cpus)
    with closing(ThreadStarter()) as threads:
        if not IS_PER_THREAD:
            yield threads  # there it would hold for the whole process, and for the ranks with it
            return
        before, could = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
        try:
            if cpus:
                os.sched_setaffinity(0, cpus)
            os.setpriority(os.PRIO_PROCESS, 0, min(NICE_MAX, before + more))
            yield threads
        finally:
            with suppress(OSError):  # root alone gets a priority back
                os.sched_setaffinity(0, could)
                os.setpriority(os.PRIO_PROCESS, 0, before)


def check_cpus(wanted: frozenset[int]) -> None:
    """Raises UsageError."""
    if IS_PER_THREAD and (absent := wanted - os.sched_getaffinity(0)):
        may = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise UsageError(f"--pin: processor {min(absent)} is none that this process may use; it may use {may}")


def parse_cpus(text: str | None) -> frozenset[int]:
    """`0,2-5`; empty for None. Raises UsageError."""
    found: set[int] = set()
    for part in text.split(",") if text is not None else ():
        first, dash, last = part.strip().partition("-")
        is_range = first.isdecimal() and (last.isdecimal() if dash else not last)
        if not is_range or not int(first) <= int(last or first) < CPUS_MAX:
            raise UsageError(f"--pin: {text!r} is no list of processors; write it as in 0,2-5")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def check_nice(nice: int | None) -> int:
    """What counts, NICE by default. Raises UsageError."""
    if nice is not None and not 0 <= nice <= NICE_MAX:
        raise UsageError(f"--nice: {nice} is outside of 0 to {NICE_MAX}; 0 gives the supervisor the priority of the ranks")
    return NICE if nice is None else nice
