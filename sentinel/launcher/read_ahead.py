"""What the next attempt runs, read while its checkpoint is verified: its interpreter takes longer to answer than all else.

    ahead.begin()                 an act before a launch begins: the answer is needed soon
    ahead.environment(question)     at the launch: what was read, where that is fresh and answers the same question; else read now

It may import `time`: what it bounds is a real read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from sentinel.launcher.environment import READ_S, LaunchQuestion, read_for_launch
from sentinel.launcher.interpreter import ASK_S
from sentinel.launcher.reserve_start import StartThread
from sentinel.model.environment import Environment

FRESH_S = READ_S  # the files of a launch that reads for itself are as old when it starts, at most
WAIT_S = ASK_S + READ_S + 1.0  # a read that takes longer is stuck on a disk; the launch is stuck there by itself then
NAME = "sentinel-reads-ahead"


@dataclass(slots=True)
class _Begun:
    question: LaunchQuestion
    found: Environment | None = None
    ended_s: float = 0.0
    is_over: threading.Event = field(default_factory=threading.Event)


class ReadAhead:
    """Of one run. `question`: what its next launch will ask, as far as that is known. `start_thread`: starts a thread whose
    children have the priority of the ranks."""

    def __init__(
        self,
        question: LaunchQuestion,
        start_thread: StartThread,
        read: Callable[[LaunchQuestion], Environment] = read_for_launch,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = question
        self._start_thread = start_thread
        self._read = read
        self._now_s = now_s
        self._begun: _Begun | None = None

    def begin(self) -> None:
        """Called by the thread that carries out acts. Nothing where an answer is on its way, or fresh."""
        if self._begun is not None and not self._is_stale(self._begun):
            return
        begun = _Begun(self._wanted)

        def run() -> None:
            with suppress(Exception):  # the launch reads for itself then, and says what is wrong
                begun.found = self._read(begun.question)
            begun.ended_s = self._now_s()
            begun.is_over.set()

        with suppress(RuntimeError):  # no threads left
            self._start_thread(run, NAME)
            self._begun = begun

    def environment(self, question: LaunchQuestion) -> Environment:
        """Each answer serves one launch."""
        begun, self._begun = self._begun, None
        is_asked = begun is not None and begun.question == question and begun.is_over.wait(WAIT_S)
        if is_asked and begun is not None and begun.found is not None and not self._is_stale(begun):
            return begun.found
        return self._read(question)

    def _is_stale(self, begun: _Begun) -> bool:
        return begun.is_over.is_set() and self._now_s() - begun.ended_s > FRESH_S
