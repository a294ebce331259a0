"""The only place that reads a clock.

`now_s` is the session clock: every decision, deadline and journal entry uses it. It looks like Unix time, but it never
runs backwards, neither when somebody sets the machine's clock nor from one supervisor of a run to the next: it starts at
the wall clock or at the journal's last entry, whichever is later, and from there follows the monotonic clock. `wall_s` is
for display and for what other programs read.

    clock = SystemClock(floor_s=journal.last_at_s())
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Session time in Unix-like seconds; never runs backwards within a run."""
        ...

    def wall_s(self) -> float:
        """The machine's own clock in Unix seconds; may jump either way. For display only."""
        ...

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until the event is set or the time has passed; True when the event is set."""
        ...


def boot_s() -> float:
    """Seconds since this machine was started, those asleep included (CLOCK_BOOTTIME). Nobody sets this clock, and every process
    of one boot reads the same; it means nothing in another boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SystemClock:
    """The real clock. `floor_s`: the session time of the journal's last entry, 0 for a new run."""

    def __init__(self, floor_s: float = 0.0) -> None:
        self._base_s = max(time.time(), floor_s)
        self._started_s = time.monotonic()

    def now_s(self) -> float:
        return self._base_s + (time.monotonic() - self._started_s)

    def wall_s(self) -> float:
        return time.time()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))
