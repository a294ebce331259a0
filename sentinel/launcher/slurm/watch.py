"""The newest view of one attempt, asked for beside whoever looks: `observe` is called from the loop, which must not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sentinel.launcher.asking import Beside, in_a_thread
from sentinel.model.attempts import AttemptView, Unseen

RETRY_IN_S = 5.0


class StepWatch:
    """`ask` gives a view, and how long to wait before it is asked again, in seconds. `now`: of a clock that never runs back."""

    def __init__(
        self,
        attempt: int,
        ask: Callable[[], tuple[AttemptView, float]],
        now: Callable[[], float],
        beside: Beside = in_a_thread,
        who: str = "Slurm",
    ) -> None:
        """`who`: is asked, for people."""
        self.attempt = attempt
        self._ask, self._now, self._beside = ask, now, beside
        self._view: AttemptView = Unseen(attempt, f"attempt {attempt}: {who} has not been asked yet")
        self._due_s = -float("inf")
        self._asking = threading.Lock()  # held while a question is under way, from one thread to the other

    def view(self, is_urgent: bool = False) -> AttemptView:
        """The last one there was. `is_urgent`: something has happened, and it is asked now."""
        if (is_urgent or self._now() >= self._due_s) and self._asking.acquire(blocking=False):
            try:
                self._beside(self._work)
            except RuntimeError:  # no thread can be started now
                self._asking.release()
        return self._view

    def begin_with(self, view: AttemptView, pause_s: float) -> None:
        self._view, self._due_s = view, self._now() + pause_s

    def _work(self) -> None:
        try:
            view, pause_s = self._ask()
        except Exception as error:  # noqa: BLE001 - whatever it is: the view of before must not stand for ever
            view, pause_s = Unseen(self.attempt, f"attempt {self.attempt} cannot be looked at: {error!r}"), RETRY_IN_S
        self._view, self._due_s = view, self._now() + pause_s
        self._asking.release()
