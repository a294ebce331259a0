"""The newest view of an attempt that a scheduler holds: asked for beside whoever looks, since `observe` is called from the loop,
which must not wait; and kept in seen.json for those who only look, and ask no scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sentinel.client.atomic_file import write_atomically
from sentinel.client.strict_json import dumps
from sentinel.launcher.asking import Beside
from sentinel.launcher.exit_report import read_object
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Alive, AttemptView, Unseen
from sentinel.run_files.attempt_files import AttemptFiles

RETRY_IN_S = 5.0
SEEN_OLD_S = 60.0


class NewestView:
    """`ask` gives a view, and how long to wait before it is asked again, in seconds. `now`: of a clock that never runs back."""

    def __init__(
        self,
        attempt: int,
        ask: Callable[[], tuple[AttemptView, float]],
        now: Callable[[], float],
        beside: Beside,
        who: str,
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


def keep_view(files: AttemptFiles, view: AttemptView) -> None:
    """For those who only look. Raises OSError."""
    value = {"v": 1, "lives": isinstance(view, Alive), "reason": view.reason if isinstance(view, Unseen) else ""}
    write_atomically(files.folder / "seen.json", dumps(value).encode() + b"\n", durable=False)


def read_view_kept(files: AttemptFiles, who: str) -> AttemptView:
    """What the supervisor saw last. `who`: was asked, for people. Raises OSError."""
    path = files.folder / "seen.json"
    kept = read_object(path)
    if kept is None:
        return Unseen(files.attempt, f"its supervisor has heard nothing from {who} yet")
    age_s = time.time() - path.stat().st_mtime
    if age_s > SEEN_OLD_S:
        return Unseen(files.attempt, f"its supervisor last heard from {who} {time_words(age_s)} ago")
    return Alive(files.attempt, 0, ()) if kept.get("lives") is True else Unseen(files.attempt, str(kept.get("reason", "")))
