"""SIGTERM and SIGINT to the supervisor: what the first, the second and every later one mean."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from sentinel.signals import WakeOnSignal

MEANT = 2  # signals with a meaning


class StopSignals:
    """SIGTERM and SIGINT, noted while inside. Two have a meaning (stop; do not wait any longer), and what comes after them,
    or after one while leaving, is ignored: it must not cut the leaving short.

    SIGHUP changes nothing: a terminal that went away must not leave the run unwatched.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.event = threading.Event()
        self._waker = WakeOnSignal(self.event)
        self._old: dict[signal.Signals, Any] = {}
        self._old_hangup: Any = signal.SIG_DFL

    def wake(self, event: threading.Event) -> None:
        """Set this event too at every signal."""
        self._waker.events = [self.event, event]

    def __enter__(self) -> StopSignals:
        self._waker.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._asked)
        self._old_hangup = signal.signal(signal.SIGHUP, lambda *_: None)  # no SIG_IGN: what is started from here would inherit it
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, signal.SIG_IGN if self.names else handler)
        signal.signal(signal.SIGHUP, self._old_hangup)
        self._waker.close()

    def _asked(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.names.append(signal.Signals(number).name)
        if len(self.names) >= MEANT:
            for known in self._old:
                signal.signal(known, signal.SIG_IGN)
        self._waker.ring()
