"""What each incident cost in time: what the ledger gained in its lost accounts between the first sign and the repair.

Folded from the journal beside the state. Training that a rollback turned into replay is counted there. Incidents that overlap
each count the seconds they share, so their sum may be more than the run lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sentinel.engine.goodput import account_attempts
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.facts import Entry
from sentinel.model.incidents import Incident
from sentinel.model.state import Archive, RunState

LOST = ("replay", "detection", "recovery", "waiting")
ATTEMPTS_BACK = 32  # a rollback behind so many attempts is not counted as the incident's

Spent = Mapping[int, Mapping[str, float]]
"""Seconds per attempt and account."""


@dataclass(frozen=True, slots=True)
class IncidentLoss:
    """`gained`: per attempt and lost account, in seconds; below zero where another account took them. `is_over`: it grows
    no more."""

    incident: int
    kind: str
    gained: Spent = field(default_factory=dict)
    is_over: bool = False

    @property
    def seconds(self) -> dict[str, float]:
        """Per lost account."""
        return {name: max(0.0, sum(spent[name] for spent in self.gained.values())) for name in LOST}

    @property
    def lost_s(self) -> float:
        return sum(self.seconds.values())


class Losses:
    """One thread at a time."""

    def __init__(self) -> None:
        self._before: dict[int, Spent] = {}  # of incidents that are not restored or closed
        self._ended: dict[int, Spent] = {}

    def take(self, state: RunState, entry: Entry) -> None:
        """One more entry. `state`: with it."""
        match entry.fact:
            case f.IncidentOpened(incident=incident):
                self._before[incident.id] = _spent(state, incident.visible_s, _since(state))
                known = {one.id for one in state.incidents}
                self._ended = {number: spent for number, spent in self._ended.items() if number in known}
            case f.Restored(incident=number) if number in self._before:
                self._end(state, number, entry.at_s)
            case f.IncidentMoved(incident=number) if number in self._before and state.incident(number).is_closed:
                self._end(state, number, entry.at_s)
            case _:
                pass

    def of_incidents(self, state: RunState, now_s: float, stalled_since_s: float | None = None) -> tuple[IncidentLoss, ...]:
        """Of every incident of the run as of `now_s`, oldest first."""
        return tuple(self._of(state, incident, now_s, stalled_since_s) for incident in state.incidents)

    def _of(self, state: RunState, incident: Incident, now_s: float, stalled_since_s: float | None) -> IncidentLoss:
        number, kind = incident.id, str(incident.kind)
        if number in self._before:
            return IncidentLoss(number, kind, _gained(state, self._before[number], now_s, stalled_since_s))
        return IncidentLoss(number, kind, self._ended.get(number, {}), is_over=True)

    def _end(self, state: RunState, number: int, at_s: float) -> None:
        self._ended[number] = _gained(state, self._before.pop(number), at_s)


def _gained(state: RunState, before: Spent, at_s: float, stalled_since_s: float | None = None) -> Spent:
    after, nothing = _spent(state, at_s, min(before, default=0), stalled_since_s), dict.fromkeys(LOST, 0.0)
    return {n: {name: spent[name] - before.get(n, nothing)[name] for name in LOST} for n, spent in after.items()}


def _since(state: RunState) -> int:
    return state.attempts[-ATTEMPTS_BACK:][0].attempt if state.attempts else 0


def _spent(state: RunState, at_s: float, since: int, stalled_since_s: float | None = None) -> Spent:
    """Of the attempts from `since` on only: what is older is the same before and after, and a run may have hundreds."""
    around = tuple(attempt for attempt in state.attempts if attempt.attempt >= since)
    older = Archive(attempts=state.archive.attempts + len(state.attempts) - len(around))
    return account_attempts(replace(state, attempts=around, archive=older), at_s, stalled_since_s)
