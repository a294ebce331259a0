"""Signals to the supervisor: what the first, the second and every later one mean. None of them kills it.

SIGTERM, SIGINT   stop after a checkpoint; the second: do not wait any longer; what comes after that is ignored. A second SIGTERM
                  within SAME_S is the first one heard twice
SIGUSR1           the machine is about to be taken away: stop after a checkpoint, and the next start goes on
SIGHUP, SIGUSR2   nothing; on record as received (a terminal that went away must not leave the run unwatched)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from sentinel.clock import SystemClock
from sentinel.model.events import Event, SignalSeen, StopWanted
from sentinel.signals import SAME_S, WakeOnSignal, let_through

MEANT = 2  # stops with a meaning
SEEN_MAX = 16  # signals without a meaning that are put on record
STOPS = (signal.SIGTERM, signal.SIGINT)
LEAVES = (signal.SIGUSR1,)
OTHERS = (signal.SIGHUP, signal.SIGUSR2)


class StopSignals:
    """Attributes:
    names: the stops that were asked for. `event` is set by them, and by nothing else.
    events: what all signals so far mean to the engine, in their order; a supervisor that begins anew is told all of them.
    """

    def __init__(self, now_s: Callable[[], float] | None = None) -> None:
        self._now_s = now_s if now_s is not None else SystemClock().now_s
        self._terminated_s = -SAME_S
        self.names: list[str] = []
        self.events: list[Event] = []
        self.event = threading.Event()
        self._stop_waker, self._waker = WakeOnSignal(self.event), WakeOnSignal()
        self._old: dict[signal.Signals, Any] = {}

    def wake(self, event: threading.Event) -> None:
        """Set this event too at every signal."""
        self._stop_waker.events = [self.event, event]
        self._waker.events = [event]

    def __enter__(self) -> StopSignals:
        self._stop_waker.start()
        self._waker.start()
        for numbers, handler in ((STOPS, self._stop), (LEAVES, self._leave), (OTHERS, self._see)):
            for number in numbers:  # never SIG_IGN: what is started from here would inherit it
                self._old[number] = signal.signal(number, handler)
        let_through()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, signal.SIG_IGN if self.events else handler)
        self._stop_waker.close()
        self._waker.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        name, now_s = signal.Signals(number).name, self._now_s()
        if number == signal.SIGTERM and now_s - self._terminated_s < SAME_S:
            return
        self._terminated_s = now_s if number == signal.SIGTERM else self._terminated_s
        self.names.append(name)
        self.events.append(StopWanted(name))
        if len(self.names) >= MEANT:
            for known in STOPS:
                signal.signal(known, signal.SIG_IGN)
        self._stop_waker.ring()

    def _leave(self, number: int, frame: FrameType | None) -> None:
        del frame
        wanted = StopWanted(signal.Signals(number).name, resumes=True)
        if wanted not in self.events:
            self.events.append(wanted)
            self._waker.ring()

    def _see(self, number: int, frame: FrameType | None) -> None:
        del frame
        if sum(isinstance(event, SignalSeen) for event in self.events) < SEEN_MAX:
            self.events.append(SignalSeen(signal.Signals(number).name))
            self._waker.ring()
