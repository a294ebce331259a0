"""What is counted of a run since it began: numbers that only grow, which the state, being bounded, does not keep.

Folded from the journal's entries, like the state and beside it, so a supervisor that starts anew counts on from the same numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from copy import copy
from dataclasses import dataclass, field, fields
from typing import get_args

from sentinel.model import facts as f
from sentinel.model.actions import Action, SendPage
from sentinel.model.incidents import CLOSED, Incident, IncidentState
from sentinel.model.recorded import recorded_name
from sentinel.model.state import RunState

DURATIONS_S = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0)
NAMES_MAX = 64  # of routes or of sources: a policy that is changed every day must not fill the memory
OTHER = "other"
FIRST_ROUTE = "terminal"  # where pages went before there were routes

ACTIONS = {kind: re.sub(r"(?<!^)(?=[A-Z])", "_", recorded_name(kind)).lower() for kind in get_args(Action)}


@dataclass(frozen=True, slots=True)
class Durations:
    """How many took up to `DURATIONS_S[i]`, in `counts[i]`; the last counts what took longer."""

    counts: tuple[int, ...] = (0,) * (len(DURATIONS_S) + 1)
    sum_s: float = 0.0

    def with_one(self, seconds: float) -> Durations:
        at = bisect_left(DURATIONS_S, seconds)
        return Durations((*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :]), self.sum_s + seconds)


@dataclass(slots=True)
class Tally:
    """Counters by what they count.

    findings: (kind, severity). opened: kind.
    closed: (kind, outcome), outcome recovered | healed (nothing was done) | exhausted | unknown.
    detection, recovery: by kind, from the moment the fault was first visible; recovery of incidents that recovered.
    actions: (action, outcome), outcome confirmed | abandoned | dropped (no longer wanted).
    delivered, undelivered: (stage, route).
    blind: by source ever named, whether it is blind. ranks: of the attempt that trains, 0 while none has reported.
    """

    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[tuple[str, str]] = field(default_factory=Counter)
    detection: dict[str, Durations] = field(default_factory=dict)
    recovery: dict[str, Durations] = field(default_factory=dict)
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)
    delivered: Counter[tuple[str, str]] = field(default_factory=Counter)
    undelivered: Counter[tuple[str, str]] = field(default_factory=Counter)
    blind: dict[str, bool] = field(default_factory=dict)
    steps_lost: int = 0
    takeovers: int = 0
    ranks: int = 0

    def copy(self) -> Tally:
        """As it is now: the copy does not grow."""
        return Tally(**{part.name: copy(getattr(self, part.name)) for part in fields(self)})

    def take(self, before: RunState, entry: f.Entry) -> None:
        """One more entry. `before`: the state without it."""
        fact = entry.fact
        match fact:
            case f.SupervisorTookOver():
                self._taken_over()
            case f.AttemptLaunched() | f.AttemptEnded():
                self.ranks = 0
            case f.ReceiptSeen():
                self.ranks = fact.world_size
            case f.FindingRecorded():
                self.findings[str(fact.finding.kind), fact.finding.severity] += 1
            case f.IncidentOpened():
                self._opened(fact.incident)
            case f.IncidentMoved():
                self._moved(before, fact)
            case f.StepsLost():
                self.steps_lost += fact.steps
            case f.SourceChanged():
                self.blind[_bounded(fact.source, set(self.blind))] = not fact.ok
            case f.ActionDecided() | f.ActionConfirmed() | f.ActionAbandoned() | f.PlanDropped():
                self._acted(before, fact)

    def _taken_over(self) -> None:
        """Each supervisor reports a source again."""
        self.takeovers += 1
        self.blind = dict.fromkeys(self.blind, False)

    def _opened(self, incident: Incident) -> None:
        kind = str(incident.kind)
        self.opened[kind] += 1
        _add(self.detection, kind, incident.detected_s - incident.visible_s)

    def _moved(self, before: RunState, fact: f.IncidentMoved) -> None:
        moved = next((one for one in reversed(before.incidents) if one.id == fact.incident), None)
        if moved is None or fact.to not in CLOSED:
            return
        kind, recovered = str(moved.kind), fact.to is IncidentState.RECOVERED
        self.closed[kind, "healed" if recovered and fact.benign else str(fact.to)] += 1
        if recovered and moved.restored_s is not None:
            _add(self.recovery, kind, moved.restored_s - moved.visible_s)

    def _acted(
        self, before: RunState, fact: f.ActionDecided | f.ActionConfirmed | f.ActionAbandoned | f.PlanDropped
    ) -> None:
        if isinstance(fact, f.ActionDecided):
            if isinstance(fact.action, SendPage):
                self._page_decided(fact.action)
            return
        if isinstance(fact, f.PlanDropped):
            for planned in before.plan.actions if before.plan else ():
                if planned.key in before.pending:
                    self.actions[ACTIONS[type(planned)], "dropped"] += 1
            return
        action = before.pending.get(fact.key)
        if action is None:
            return
        done = isinstance(fact, f.ActionConfirmed)
        is_withdrawn = isinstance(fact, f.ActionAbandoned) and fact.withdrawn
        self.actions[ACTIONS[type(action)], "confirmed" if done else "dropped" if is_withdrawn else "abandoned"] += 1
        if isinstance(action, SendPage) and not is_withdrawn:  # a call that was answered first is no route that cannot deliver
            (self.delivered if done else self.undelivered)[action.stage, self._route(action)] += 1

    def _page_decided(self, page: SendPage) -> None:
        """Both counts stand at 0 before the first delivery: what watches them for a rise needs to see them there."""
        self.delivered[page.stage, self._route(page)] += 0
        self.undelivered[page.stage, self._route(page)] += 0

    def _route(self, page: SendPage) -> str:
        return _bounded(page.route or FIRST_ROUTE, {route for _, route in self.delivered})


def _add(durations: dict[str, Durations], kind: str, seconds: float) -> None:
    durations[kind] = durations.get(kind, Durations()).with_one(max(0.0, seconds))


def _bounded(name: str, known: set[str]) -> str:
    return name if name in known or len(known) < NAMES_MAX else OTHER
