"""A world in which an attempt lives and every act succeeds at once, so that the loop alone is measured."""

from __future__ import annotations

from collections.abc import Sequence

from sentinel.model.actions import Action
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView
from sentinel.model.events import ActionDone


class StillAlive:
    """A launcher whose every attempt lives."""

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        return Alive(spec.attempt, 1, ())

    def ensure_stopped(self, attempt: int) -> AttemptView:
        return Alive(attempt, 1, ())

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        return 0

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return Alive(attempt, 1, ())


class AtOnce:
    """A runner whose every act succeeds at once."""

    def __init__(self) -> None:
        self._done: list[ActionDone] = []

    def submit(self, action: Action) -> None:
        self._done.append(ActionDone(action.key))

    def outcomes(self) -> Sequence[ActionDone]:
        done, self._done = self._done, []
        return done

    def progress(self, key: str) -> int | None:
        return None

    def abandon(self, key: str) -> None: ...
