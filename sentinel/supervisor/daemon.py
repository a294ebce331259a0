"""One round of the loop: gather events, decide, write the facts down, act; outcomes come back as events.

`turn` waits for nothing, so the simulator drives this very code over a simulated world; `loop.py` drives it over the real one.
Whatever is slow (starting processes, digests, pages) happens behind the runner and never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sentinel.engine import Engine
from sentinel.model.actions import Action, StartAttempt
from sentinel.model.amounts import time_words
from sentinel.model.events import ActionDelayed, ActionDone, ActionFailed, Event, StopWanted, SupervisorStarted, Tick
from sentinel.model.facts import ActionDecided, Entry, Fact
from sentinel.model.readings import Heartbeat, Reading, StepReading
from sentinel.model.records import LoadedPolicy
from sentinel.plan.stuck_acts import stuck_after

TICK_S = 1.0  # a turn says that the next may wait so long
RETRIES_MAX = 20  # an action that may work later is asked for again so often, then the engine is told it failed
REPORTED_TRIES = (1, 4, 16)  # of which a person hears why it was not done yet
EVIDENCE_TRIES_MAX = 2  # evidence is taken before a kill: a full disk may cost it, and must not cost minutes of every GPU
EVIDENCE_RETRY_S = 0.5
STOOD_STILL_S = 3.0  # a whole look so late after the one before: this process, or the disk beneath it, stood still
AWAY_S = 10.0  # later than that after a wait of a second: stopped, and not only a busy machine
FLUSH_S = 20.0  # after the run's end: how long pages and other last actions may still take


class Telemetry(Protocol):
    def follow(self, attempt: int) -> None: ...
    def poll(self, now_s: float) -> Sequence[Reading]: ...
    def poll_steps(self, now_s: float) -> Sequence[Reading]: ...
    @property
    def has_more(self) -> bool: ...


class Runner(Protocol):
    def submit(self, action: Action) -> None: ...
    def outcomes(self) -> Sequence[ActionDone | ActionFailed]: ...
    def progress(self, key: str) -> int | None: ...
    def abandon(self, key: str) -> None: ...


class FactLog(Protocol):
    def append(self, at_s: float, facts: Sequence[Fact], epoch: int) -> tuple[Entry, ...]: ...
    def settle(self) -> None: ...


class Narrator(Protocol):
    """Shows a person what happens. Its methods must return at once."""

    def facts(self, entries: Sequence[Entry], engine: Engine) -> None: ...
    def step(self, reading: StepReading) -> None: ...
    def turn(self, now_s: float, engine: Engine) -> None: ...


class Silent:
    """The narrator that says nothing."""

    def facts(self, entries: Sequence[Entry], engine: Engine) -> None: ...
    def step(self, reading: StepReading) -> None: ...
    def turn(self, now_s: float, engine: Engine) -> None: ...


@dataclass(slots=True)
class Due:
    """A decided action that waits for its time or another try. `progress`: how far it had got at `moved_s`. `is_reported`: the
    engine knows that it is not proven to have taken effect."""

    action: Action
    at_s: float
    tries: int = 0
    is_reported: bool = False
    progress: int | None = None
    moved_s: float = 0.0


class Daemon:
    def __init__(
        self, engine: Engine, journal: FactLog, telemetry: Telemetry, runner: Runner, epoch: int, narrator: Narrator | None = None
    ) -> None:
        self.engine = engine
        self._journal = journal
        self._telemetry = telemetry
        self._runner = runner
        self._epoch = epoch
        self._narrator: Narrator = narrator or Silent()
        self._due: dict[str, Due] = {}
        self._running: dict[str, Due] = {}
        self._followed = 0
        self._wanted: list[Event] = []
        self._loaded: list[ActionDone] = []  # policies that were read, until no action is under way
        self._looked_s: float | None = None  # when everything was last looked at
        self._away_s = 0.0  # how long this process stood still since the last tick
        self._ended_s: float | None = None  # since when nothing but last actions can keep it

    def start(self, now_s: float, event: SupervisorStarted) -> None:
        """First event of the session; then everything that was decided and never confirmed is asked for again."""
        left_over = list(self.engine.state.pending.values())
        self._handle(now_s, event)
        for action in left_over:
            if action.key in self.engine.state.pending:
                self._schedule(action)
        self._submit(now_s)

    def want_stop(self, by: str) -> None:
        """Safe to call from a signal handler: only appends."""
        self.want(StopWanted(by))

    def want(self, event: Event) -> None:
        """What came from outside the world that telemetry reads, before the next look at it."""
        self._wanted.append(event)

    def turn(self, now_s: float, only_steps: bool = False) -> float:
        """One round; returns how many seconds may pass before the next unless something wakes the loop.

        Args:
            only_steps: Nothing but step lines was heard since the last whole round. They are read behind new checkpoints, and
                whatever leads to a fact is followed by a tick. An event from outside makes the round whole, and so does an action
                that has ended, unless another is under way: that one's outcome would wait until every source has answered.
        """
        outcomes = self._runner.outcomes()
        for outcome in outcomes:
            self._outcome(now_s, outcome)
        while self._loaded and not self._running:
            self._handle(now_s, self._loaded.pop(0))
            if self.is_outdated:
                return 0.0
        is_whole = not only_steps or bool(self._wanted)
        while self._wanted:
            self._handle(now_s, self._wanted.pop(0))
        self._submit(now_s)  # the next act of a plan does not wait until every source has been read
        is_between_acts = not is_whole and bool(outcomes) and bool(self._running)
        is_whole = is_whole or (bool(outcomes) and not is_between_acts)
        switched = self.engine.watched not in (0, self._followed)
        if switched:
            self._followed = self.engine.watched
            self._telemetry.follow(self._followed)
        if is_whole:
            self._begin_look(now_s)
        readings = self._telemetry.poll(now_s) if is_whole else self._telemetry.poll_steps(now_s)
        has_news = self._hear(now_s, readings)
        if is_whole or has_news:
            if not self._telemetry.has_more:
                away_s, self._away_s = self._away_s, 0.0
                self._handle(now_s, Tick(away_s))
            self._narrator.turn(now_s, self.engine)
        self._submit(now_s)
        if not is_between_acts:  # the head of the journal lags until the next whole look
            self._journal.settle()
        if self.engine.state.ended and self._ended_s is None:
            self._ended_s = now_s
        if self._telemetry.has_more or switched or self.engine.watched != self._followed:
            return 0.0  # another attempt to look at: its first writes must not wait for the next tick
        return min([TICK_S, *(max(0.0, due.at_s - now_s) for due in self._due.values())]) if self._due else TICK_S

    @property
    def is_outdated(self) -> bool:
        """Another policy is in force: whoever drives this begins anew with it. No action is under way."""
        return self.engine.is_outdated

    @property
    def is_acting(self) -> bool:
        """An action is being carried out."""
        return bool(self._running)

    def is_over(self, now_s: float) -> bool:
        """The run has ended and its last actions are done, or have had their time; and nobody is left to be called."""
        if self._ended_s is None:
            return False
        if self.engine.owes_a_page(now_s):
            self._ended_s = now_s  # who answers now is still to be passed on: to those who were called before
            return False
        is_waited_for = any(not due.is_reported for due in self._due.values())  # no proof is: the next start goes on with that
        return not (is_waited_for or self._running) or now_s - self._ended_s > FLUSH_S

    def _hear(self, now_s: float, readings: Sequence[Reading]) -> bool:
        """In their order; whether they led to a fact. Heartbeats in a row, which a large run has many of, go by as one."""
        has_news = False
        beats: list[Heartbeat] = []
        for reading in readings:
            if isinstance(reading, Heartbeat):
                beats.append(reading)
                continue
            self.engine.hear(beats, now_s)
            beats = []
            has_news = self._handle(now_s, reading) or has_news
        self.engine.hear(beats, now_s)
        return has_news

    def _handle(self, now_s: float, event: Event) -> bool:
        """Whether it led to a fact."""
        facts = self.engine.handle(now_s, event)
        if facts:
            entries = self._journal.append(now_s, facts, self._epoch)
            for fact in facts:
                if isinstance(fact, ActionDecided):
                    self._schedule(fact.action)
            self._narrator.facts(entries, self.engine)
        if isinstance(event, StepReading):
            self._narrator.step(event)
        return bool(facts)

    def _schedule(self, action: Action) -> None:
        self._due[action.key] = Due(action, action.not_before_s if isinstance(action, StartAttempt) else 0.0)

    def _submit(self, now_s: float) -> None:
        """Hand over what is due and still wanted, in the order it was decided."""
        for key, due in list(self._due.items()):
            if key not in self.engine.state.pending:
                del self._due[key]
            elif due.at_s <= now_s:
                del self._due[key]
                due.tries += 1
                due.progress = None
                self._running[key] = due
                self._runner.submit(due.action)

    def _outcome(self, now_s: float, outcome: ActionDone | ActionFailed) -> None:
        due = self._running.pop(outcome.key, None)
        if isinstance(outcome, ActionDone) and isinstance(outcome.found, LoadedPolicy):
            self._loaded.append(outcome)
            return
        if due is not None and isinstance(outcome, ActionFailed) and outcome.goes_on:
            due.at_s, due.tries = now_s + (outcome.retry_in_s or TICK_S), 0
            self._due[outcome.key] = due  # the engine has the deadline, and takes it from what is pending
            if outcome.unproven and not due.is_reported:
                due.is_reported = True
                self._handle(now_s, ActionDelayed(outcome.key, outcome.reason, outcome.retry_in_s or TICK_S, unproven=True))
            return
        is_own = isinstance(outcome, ActionFailed) and due is not None and not _is_engines(due, outcome)
        if due is not None and isinstance(outcome, ActionFailed) and is_own and outcome.retry_in_s is not None:
            can_do_without = due.action.if_failed == "go on"
            if due.tries < (EVIDENCE_TRIES_MAX if can_do_without else RETRIES_MAX):
                retry_in_s = min(outcome.retry_in_s, EVIDENCE_RETRY_S) if can_do_without else outcome.retry_in_s
                due.at_s = now_s + retry_in_s
                self._due[outcome.key] = due
                if due.tries in REPORTED_TRIES:
                    self._handle(now_s, ActionDelayed(outcome.key, outcome.reason, retry_in_s))
                return
        self._handle(now_s, outcome)

    def _begin_look(self, now_s: float) -> None:
        """A whole look begins. One that comes late was kept from looking."""
        since_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        if since_s > STOOD_STILL_S:
            self._away_s += since_s - TICK_S
        self._give_up_stuck(now_s, since_s)

    def _give_up_stuck(self, now_s: float, since_s: float) -> None:
        """An act without news for too long is left behind, and counts as failed. `since_s`: since the look before."""
        for key, due in list(self._running.items()):
            progress = self._runner.progress(key)
            if progress is None:
                continue  # it waits behind another
            if since_s > AWAY_S:
                due.moved_s += since_s  # this process stood still, and the act with it
            stuck_after_s = stuck_after(due.action, self.engine.policy.spec.acts)
            if due.progress != progress:
                due.progress, due.moved_s = progress, now_s
            elif stuck_after_s is not None and now_s - due.moved_s > stuck_after_s:
                self._runner.abandon(key)
                del self._running[key]
                reason = f"nothing was heard of it for {time_words(now_s - due.moved_s)}; it is left behind where it is stuck"
                self._handle(now_s, ActionFailed(key, reason, None, overdue=True))


def _is_engines(due: Due, outcome: ActionFailed) -> bool:
    """The scheduler did not start an attempt: when it is asked again is for the engine to decide."""
    return outcome.by_engine and isinstance(due.action, StartAttempt)
