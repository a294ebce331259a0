"""What must hold of pages, in the simulated world's own truth and in the journal: whoever is needed is called, on one route or
another; nobody is called twice for one thing, nor for what was answered; and only who was called gets the rest."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from sentinel.engine.holding_back import mutes_of
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.actions import SendPage
from sentinel.model.findings import Severity
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.policy.schema import Paging
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.world import World, WorldChange

SLACK_S = 5.0  # between a deadline and the sending that follows it


def calls(sent: Sequence[WorldChange]) -> tuple[WorldChange, ...]:
    """The first time a person was called, of each incident."""
    first: dict[str, WorldChange] = {}
    for change in sent:
        if change.what == "trigger":
            first.setdefault(change.to, change)
    return tuple(first.values())


class PageJudge:
    """Told of every fact; `judge` after every turn."""

    def __init__(self, world: World, paging: Paging) -> None:
        self._world = world
        self.go_by(paging)
        self._due: dict[int, tuple[float, float]] = {}  # exhausted incidents: since when, and when somebody must know
        self._open: dict[int, bool] = {}  # incidents whose page is open; whether somebody has answered
        self._called: dict[tuple[int, str], float] = {}  # by incident and route: the newest trigger of the present raising
        self._ever: dict[tuple[int, str], float] = {}  # and of any
        self._under_way: dict[str, tuple[int, str]] = {}
        self._unsaid: dict[int, tuple[Severity, float]] = {}  # raised, and sent nowhere: how severe, since when it could be

    def go_by(self, paging: Paging) -> None:
        """Of the policy in force."""
        self._paging = paging
        self._closed_first = {route.name for route in paging.routes if route.closes_first}

    def on_fact(self, fact: f.Fact, state: RunState) -> None:
        match fact:
            case f.IncidentMoved(incident=number, to=IncidentState.EXHAUSTED) if state.incident(number).playbook:
                limit_s = self._paging.deadline_s * len(self._paging.routes) + SLACK_S
                self._due[number] = (self._world.now_s, self._world.now_s + limit_s)
            case f.PageRaised(incident=number, anew=anew, severity=severity):
                if not anew and self._open.get(number) is not False:
                    raise InvariantBroken("one incident is one page", f"that of incident {number} was changed, and is not open")
                if anew:
                    self._open[number] = False
                    self._unsaid[number] = (severity, self._world.now_s)
                    self._called = {key: at_s for key, at_s in self._called.items() if key[0] != number}
            case f.PageResolved(incident=number):
                self._unsaid.pop(number, None)
                page = state.incident(number).page
                if page is not None and page.hold is not None and page.hold.incidents:
                    self._due.pop(number, None)  # it waited behind another page, of which people knew, and is over
                if self._open.pop(number, None) is None:
                    raise InvariantBroken("only an open page is resolved", f"that of incident {number}")
            case f.RequestAnswered(granted=True, wish=w.Acknowledge() | w.Approve() | w.Deny() as request, id=asked):
                if request.incident in self._open and not w.is_deadline(asked):
                    self._open[request.incident] = True
                    self._unsaid.pop(request.incident, None)
            case f.ActionDecided(action=SendPage() as page) if page.stage != "message":
                self._on_decided(page, state.incident(page.incident))
            case f.ActionConfirmed(key=key) | f.ActionAbandoned(key=key):
                self._under_way.pop(key, None)

    def _on_decided(self, page: SendPage, incident: Incident) -> None:
        where = (page.incident, page.route)
        if where in self._under_way.values():
            raise InvariantBroken("on a route one page follows the other", f"{page.key} while another is under way")
        self._under_way[page.key] = where
        if page.stage != "trigger" and where not in self._ever:
            raise InvariantBroken("only who was called is told the rest", page.key)
        if page.stage == "resolve" and page.incident in self._open and page.route not in self._closed_first:
            raise InvariantBroken("only who was called is told the rest", f"{page.key} while the page is open")
        if page.stage != "trigger":
            return
        if muted := mutes_of(self._paging, incident, page.severity, page.route, self._world.now_s):
            raise InvariantBroken("nobody is called while it is muted", f"{page.key} in {muted[0].name}")
        self._unsaid.pop(page.incident, None)
        if self._open.get(page.incident) is not False:
            raise InvariantBroken("nobody is called for what was answered", page.key)
        since_s = self._world.now_s - self._called.get(where, -1e18)
        if since_s < self._paging.repeat_every_s:
            raise InvariantBroken("a page is repeated no sooner than asked", f"{page.key} after {since_s:.0f} s")
        self._called[where] = self._ever[where] = self._world.now_s

    def judge(self, now_s: float, state: RunState) -> None:
        limit_s = self._paging.deadline_s * len(self._paging.routes) + SLACK_S
        late = ""
        for number, (severity, since_s) in list(self._unsaid.items()):
            if self._waits(state.incident(number), severity, now_s):
                self._unsaid[number] = (severity, now_s)
                if number in self._due:
                    self._due[number] = (self._due[number][0], now_s + limit_s)
            elif now_s == inf and any(change.what == "trigger" for change in self._world.pages):
                continue  # the run has ended, and somebody was called for it
            elif now_s > since_s + limit_s and state.ended in ("", "failed", "finished"):
                late = late or f"incident {number}, {now_s - since_s:.0f} s ago"
        for number, (since_s, due_s) in list(self._due.items()):
            if self.is_called_for(number, since_s):
                del self._due[number]
            elif now_s > due_s:
                raise InvariantBroken("recovered, or paged before the deadline", f"incident {number} is exhausted, nobody knows")
        if late:
            raise InvariantBroken("what waited is paged when it may be", late)

    def _waits(self, incident: Incident, severity: Severity, now_s: float) -> bool:
        """Whether every route that would have it is muted, or another incident keeps it back, as the policy asks. Behind the end
        nobody waits any more for a window."""
        wants = [route.name for route in self._paging.routes if route.is_for(severity) and route.settings.after_s is None]
        muted = not wants or (
            now_s < inf and all(mutes_of(self._paging, incident, severity, name, now_s) for name in wants)
        )
        hold = incident.page.hold if incident.page is not None else None
        return muted or (hold is not None and bool(hold.incidents))

    def is_called_for(self, number: int, since_s: float) -> bool:
        """For itself, or together with the incident that the run failed of; or every route was tried."""
        early_s = since_s - self._paging.deadline_s
        triggers = (change for change in self._world.pages if change.what == "trigger")
        if any(change.to == str(number) or change.at_s >= early_s for change in triggers):
            return True
        tried = {route for (_, route), at_s in self._ever.items() if at_s >= early_s}
        return tried >= {route.name for route in self._paging.routes}

    def was_down(self, seconds: float) -> None:
        """No supervisor lived for so long: what it owed is due that much later."""
        self._due = {number: (since_s, due_s + seconds) for number, (since_s, due_s) in self._due.items()}
        self._unsaid = {number: (severity, since_s + seconds) for number, (severity, since_s) in self._unsaid.items()}
