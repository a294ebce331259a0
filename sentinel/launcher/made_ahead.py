"""What waits for the next attempt, looked after by the supervisor's loop: a keeper that is ready, and ranks in reserve."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from sentinel.launcher.ready_keeper import ReadyKeeper
from sentinel.launcher.reserve import Reserve
from sentinel.launcher.reserve_start import StartThread


class MadeAhead:
    """Neither, where every launch starts everything anew. `start_thread`: as in `Reserve`. `prepare`: what else a recovery would
    wait for, done once when the run trains, in a thread that nothing waits for."""

    def __init__(
        self,
        ready: ReadyKeeper | None = None,
        reserve: Reserve | None = None,
        start_thread: StartThread | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._ready, self._reserve, self._prepare = ready, reserve, prepare
        for part in (ready, reserve):
            if part is not None:
                part.start_thread = start_thread

    def look(self, now_s: float, attempt: int, is_settled: bool) -> None:
        """From the loop, at every whole look. `attempt`: the one that is watched; `is_settled`: it trains, and nothing is being
        repaired."""
        if is_settled and self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            with suppress(RuntimeError):  # no threads left
                threading.Thread(target=prepare, name="sentinel-prepares", daemon=True).start()
        for part in (self._ready, self._reserve):
            if part is not None:
                part.look(now_s, attempt, is_settled)

    def begin(self) -> None:
        """A launch is about to come: a keeper comes up meanwhile, where none waits."""
        if self._ready is not None:
            self._ready.begin()

    def close(self) -> None:
        """End what waits."""
        for part in (self._ready, self._reserve):
            if part is not None:
                part.close()
