"""Reads that may never return, in a thread of their own, waited for no longer than a deadline.

A read from a network filesystem whose server is gone does not return and cannot be interrupted; a look at a process whose memory
map is locked behaves the same. Whoever does that in the loop's own thread stands still with it. So each source reads in a thread
of its own. One that does not answer is blind until it does. Its thread is left where it is stuck, the other sources are heard,
and what it says in the end is delivered late.

    reads = TimedReads(health)
    readings = reads.ask(now_s, lambda: source.poll(now_s))     # what it says, or that it has become blind
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence

from sentinel.launcher.process_waits import read_kernel_place
from sentinel.model.amounts import time_words
from sentinel.model.readings import Reading
from sentinel.telemetry.source import SourceHealth

ANSWER_S = 5.0  # a poll is bounded and takes milliseconds; a busy machine or disk may make seconds of them
HURRY_S = 1.0  # where another source is late already: all of them together must not hold up the loop
RESUMED_S = 0.5  # after a suspension the deadline has passed before the thread could run
CLOSE_S = 1.0

Read = Callable[[], Sequence[Reading]]


class TimedReads:
    """Of one source. One thread, started with the first read; called by the loop alone.

    `late_since_s`: session clock, since when the read that was asked for last has not returned; None while it answers.
    """

    def __init__(self, health: SourceHealth) -> None:
        self.late_since_s: float | None = None
        self._health = health
        self._asked: queue.SimpleQueue[Read | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Sequence[Reading] | BaseException] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_late(self) -> bool:
        return self.late_since_s is not None

    def ask(self, now_s: float, read: Read, wait_s: float = ANSWER_S) -> list[Reading]:
        """What `read` returns or raises. While an earlier read has not returned nothing new is asked: the answer is then empty,
        and that of the earlier read once it is there. That the source went blind, or sees again, is part of the answer."""
        if not self.is_late:
            self._start()
            self._asked.put(read)
        answer = self._next_answer(0.0 if self.is_late else wait_s)
        if answer is None:
            if not self.is_late:
                self.late_since_s = now_s
            return [*self._health.overdue(f"no answer for {time_words(wait_s)}{self._place()}")]
        self.late_since_s = None
        if isinstance(answer, BaseException):
            raise answer
        return [*self._health.answered(), *answer]

    def close(self, last: Callable[[], None] = lambda: None) -> None:
        """End the thread; `last` is called in it before. A thread that is stuck is left behind, and does so when it goes on."""
        thread, self._thread = self._thread, None
        if thread is None:
            last()
            return

        def finish() -> Sequence[Reading]:
            last()
            return ()

        self._asked.put(finish)
        self._asked.put(None)
        if not self.is_late:
            thread.join(CLOSE_S)

    def _start(self) -> None:
        if self._thread is None:
            name = f"sentinel-reads-{self._health.source.replace(' ', '-')}"
            self._thread = threading.Thread(target=self._run, args=(self._asked, self._answers), name=name, daemon=True)
            self._thread.start()

    @staticmethod
    def _run(asked: queue.SimpleQueue[Read | None], answers: queue.SimpleQueue[Sequence[Reading] | BaseException]) -> None:
        while (read := asked.get()) is not None:
            try:
                answers.put(read())
            except BaseException as error:  # noqa: BLE001 - raised again in the loop, where it was asked
                answers.put(error)

    def _next_answer(self, wait_s: float) -> Sequence[Reading] | BaseException | None:
        for timeout_s in (wait_s, RESUMED_S) if wait_s else (0.0,):
            try:
                return self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
            except queue.Empty:
                continue
        return None

    def _place(self) -> str:
        """Where in the kernel the thread waits."""
        assert self._thread is not None, "what is late was asked of a thread"
        where = read_kernel_place(os.getpid(), self._thread.native_id)
        return f"; it waits in the kernel ({where})" if where and "futex" not in where else ""
