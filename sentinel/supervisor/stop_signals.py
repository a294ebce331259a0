"""Signals to the supervisor: what the first, the second and every later one mean. None of them kills it.

SIGTERM, SIGINT   stop after a checkpoint; the second: do not wait any longer; what comes after that is ignored. A second SIGTERM
                  within SAME_S is the first one heard twice
SIGUSR1           the machine is about to be taken away: stop after a checkpoint, and the next start goes on
SIGHUP            read the file of the run's policy anew; nothing where it comes because the terminal went away, which must
                  neither leave the run unwatched nor bring an edit into force that nobody asked for yet
SIGUSR2           nothing; on record as received
"""

from __future__ import annotations

import os
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
RELOADS = (signal.SIGHUP,)
OTHERS = (signal.SIGUSR2,)
TERMINAL = "/dev/tty"


class StopSignals:
    """Attributes:
    names: the stops that were asked for. `event` is set by them, and by nothing else.
    events: what all signals so far mean to the engine, in their order; a supervisor that begins anew is told all of them.
    `take_reload` is apart from them: a policy that has been read anew need not be read again by whoever begins anew.
    """

    def __init__(self, now_s: Callable[[], float] | None = None, has_terminal: Callable[[], bool] | None = None) -> None:
        self._has_terminal = has_terminal if has_terminal is not None else has_controlling_terminal
        self._had_terminal = self._has_terminal()
        self._reloads, self._is_reloading = 0, False
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

    def take_reload(self) -> bool | SignalSeen:
        """Whether the policy is to be read anew, once for all that was heard since it was last asked."""
        if not self._reloads:
            return False
        self._reloads = 0
        if self._had_terminal and not self._has_terminal():
            self._had_terminal = False  # the next one is somebody's
            return SignalSeen("SIGHUP (the terminal went away)")
        return True

    def __enter__(self) -> StopSignals:
        self._stop_waker.start()
        self._waker.start()
        for numbers, handler in ((STOPS, self._stop), (LEAVES, self._leave), (RELOADS, self._reload), (OTHERS, self._see)):
            for number in numbers:  # never SIG_IGN: what is started from here would inherit it
                self._old[number] = signal.signal(number, handler)
        let_through()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, signal.SIG_IGN if self.events or self._is_reloading else handler)
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

    def _reload(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._reloads, self._is_reloading = self._reloads + 1, True
        self._waker.ring()

    def _see(self, number: int, frame: FrameType | None) -> None:
        del frame
        if sum(isinstance(event, SignalSeen) for event in self.events) < SEEN_MAX:
            self.events.append(SignalSeen(signal.Signals(number).name))
            self._waker.ring()


def has_controlling_terminal() -> bool:
    """A process that a terminal started has one until that goes away; a service has none."""
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
