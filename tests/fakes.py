"""Doubles for the edges of the loop, each readable at a glance: a clock set by hand, a journal in memory, a runner that waits
to be told how an action ended, telemetry that says what it was given."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sentinel.model.actions import Action
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.facts import Entry, Fact
from sentinel.model.readings import Reading
from sentinel.model.records import LoadedPolicy


class ManualClock:
    """`clock.Clock`; time passes by `advance` and by waiting, which sets nothing and returns at once."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.at_s = now_s
        self.waited: list[float] = []

    def now_s(self) -> float:
        return self.at_s

    def wall_s(self) -> float:
        return self.at_s

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "a session clock does not run backwards"
        self.at_s += seconds

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        if not event.is_set():
            self.advance(timeout_s)
        return event.is_set()


class MemoryLog:
    """`daemon.FactLog`: the batches in the order they were written; `failing` makes the next append raise it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.failing: Exception | None = None
        self.settled = 0

    def append(self, at_s: float, facts: Sequence[Fact], epoch: int) -> tuple[Entry, ...]:
        if self.failing is not None:
            raise self.failing
        new = tuple(Entry(len(self.entries) + n, at_s, epoch, fact) for n, fact in enumerate(facts, 1))
        self.entries += new
        return new

    def settle(self) -> None:
        self.settled = len(self.entries)


class HeldRunner:
    """`daemon.Runner`: keeps what it was given; `done` and `failed` say how the oldest action of that kind ended."""

    def __init__(self) -> None:
        self.submitted: list[Action] = []
        self.progress_of: dict[str, int] = {}
        self.abandoned: list[str] = []
        self._outcomes: list[ActionDone | ActionFailed] = []

    def submit(self, action: Action) -> None:
        self.submitted.append(action)

    def outcomes(self) -> Sequence[ActionDone | ActionFailed]:
        out, self._outcomes = self._outcomes, []
        return out

    def progress(self, key: str) -> int | None:
        return self.progress_of.get(key)

    def abandon(self, key: str) -> None:
        self.abandoned.append(key)

    def done(self, key: str, detail: str = "") -> None:
        self._outcomes.append(ActionDone(key, detail))

    def found(self, key: str, found: LoadedPolicy) -> None:
        self._outcomes.append(ActionDone(key, "", found))

    def failed(self, key: str, reason: str = "no", retry_in_s: float | None = None) -> None:
        self._outcomes.append(ActionFailed(key, reason, retry_in_s))

    def goes_on(self, key: str, reason: str, retry_in_s: float) -> None:
        self._outcomes.append(ActionFailed(key, reason, retry_in_s, goes_on=True))

    def unproven(self, key: str, reason: str, retry_in_s: float) -> None:
        self._outcomes.append(ActionFailed(key, reason, retry_in_s, goes_on=True, unproven=True))

    def refused(self, key: str, reason: str) -> None:
        self._outcomes.append(ActionFailed(key, reason, 5.0, by_engine=True))

    @property
    def keys(self) -> list[str]:
        return [action.key for action in self.submitted]


class GivenWake:
    """`loop.Wake`: `other` is what the next `take` says."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.other = False

    def take(self) -> bool:
        self.event.clear()
        other, self.other = self.other, False
        return other


class GivenTelemetry:
    """`daemon.Telemetry`: each poll says the next batch that was put in `batches`."""

    def __init__(self) -> None:
        self.followed: list[int] = []
        self.batches: list[list[Reading]] = []
        self.has_more = False

    def follow(self, attempt: int) -> None:
        self.followed.append(attempt)

    def poll(self, now_s: float) -> Sequence[Reading]:
        return self.batches.pop(0) if self.batches else []

    def poll_steps(self, now_s: float) -> Sequence[Reading]:
        return self.poll(now_s)
