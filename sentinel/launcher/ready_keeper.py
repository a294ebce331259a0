"""A keeper that is ready before it is needed, since a relaunch would wait for its interpreter and its imports.

    ready.look(now_s, attempt, is_settled)     from the loop, at every whole look: never waits
    ready.begin()                              one is about to be needed: it comes up meanwhile
    ready.take(files, grace_s, direct)         from a launch; what came of it is seen in the attempt's files

It holds no attempt, no lock and no file, and ends with its supervisor (docs/design/warm.md, "Who owns it"). One that is of no use
costs a launch the start of another keeper, and nothing else.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from sentinel.launcher.keeper_line import KeeperLine, start_keeper_ahead
from sentinel.launcher.reserve_start import StartThread
from sentinel.run_files.attempt_files import AttemptFiles

AGAIN_S = 60.0  # after one that somebody ended


class ReadyKeeper:
    """One supervisor's. `withheld`: variables that nothing it starts inherits. `start_thread`: starts a thread that has the
    priority and the processors of the ranks, which the supervisor's own have not."""

    def __init__(self, withheld: frozenset[str] = frozenset()) -> None:
        self._withheld = withheld
        self.start_thread: StartThread | None = None
        self._held: KeeperLine | None = None
        self._lock = threading.Lock()  # a launch comes from another thread than the looks
        self._not_before_s = 0.0
        self._is_closed = False

    def look(self, now_s: float, attempt: int, is_settled: bool) -> None:
        """`is_settled`: it trains, and nothing is being repaired. The attempt does not matter: every one gets the same keeper."""
        del attempt
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._held is not None and not _lives(self._held):
                self._drop()
                self._not_before_s = now_s + AGAIN_S
            if is_settled and now_s >= self._not_before_s:
                self._start()
        finally:
            self._lock.release()

    def begin(self) -> None:
        """Start one where there is none."""
        with self._lock:
            self._start()

    def take(self, files: AttemptFiles, grace_s: float, direct: bool) -> None:
        """Hand the attempt over, whose spec.json is written. Where that does not start it, another keeper may be started: the
        lock tells the two apart."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            held.hand(files, grace_s, direct)

    def close(self) -> None:
        """The end of the socket ends what is behind it."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _start(self) -> None:
        if self._held is None and not self._is_closed:
            with suppress(OSError, RuntimeError):  # no processes or threads left: the launch says so itself
                self._held = KeeperLine(start_keeper_ahead(self._withheld, self.start_thread))

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.line.close()


def _lives(held: KeeperLine) -> bool:
    """Before its turn it says nothing; its end is heard."""
    try:
        return held.lines() is not None
    except BlockingIOError:
        return True
    except (OSError, ValueError):
        return False
