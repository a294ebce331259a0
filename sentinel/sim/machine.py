"""The simulated machine: a clock, what is going to happen, and processes' numbers.

Time passes only in `advance`, which lets things happen in order of their time and returns early when something was written
that would wake a real supervisor.

    machine = Machine(seed=7)
    machine.after(2.0, lambda: ...)
    machine.advance(10.0)
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

EPOCH_S = 1_000_000.0  # when the simulated session clock starts; any large number, so that a forgotten offset shows


@dataclass(slots=True)
class ScheduledEvent:
    """Something that will happen, unless it is cancelled."""

    do: Callable[[], None] | None

    def cancel(self) -> None:
        self.do = None


@dataclass
class Machine:
    """Attributes:
    dice: every random draw of the simulated world, from `seed`.
    living: attempts of which a process lives.
    happened: how many things have happened.
    """

    seed: int
    now_s: float = EPOCH_S
    living: set[int] = field(default_factory=set)
    events_count: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._queue: list[tuple[float, int, ScheduledEvent]] = []
        self._number = 0
        self._pids = 1000
        self._woken = False

    def after(self, delay_s: float, do: Callable[[], None]) -> ScheduledEvent:
        """Let `do` happen `delay_s` from now; things of the same moment happen in the order they were asked for."""
        assert delay_s >= 0.0, f"{delay_s} s from now is the past"
        event = ScheduledEvent(do)
        self._number += 1
        heapq.heappush(self._queue, (self.now_s + delay_s, self._number, event))
        return event

    def advance(self, seconds: float, *, wakes: bool = True) -> None:
        """Let time pass: at most `seconds`, and with `wakes` only until something is written that a supervisor hears."""
        end_s = self.now_s + seconds
        self._woken = False
        queue = self._queue
        while queue and queue[0][0] <= end_s:
            self.now_s, _, event = heapq.heappop(queue)
            do, event.do = event.do, None
            if do is not None:
                self.events_count += 1
                do()
                if self._woken and wakes:
                    return
        self.now_s = end_s

    def wake(self) -> None:
        """Something was written that inotify would tell a supervisor."""
        self._woken = True

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids
