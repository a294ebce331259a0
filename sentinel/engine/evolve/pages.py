"""The rules of `evolve` about pages: the fold of what was raised, sent, delivered, acknowledged and resolved. None of them
decides anything. A `SendPage` of a journal from before there were routes leaves no page, and nothing of it is repeated."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.engine.evolve.incidents import change_incident
from sentinel.model import facts as f
from sentinel.model.actions import SendPage
from sentinel.model.changed import replace
from sentinel.model.incidents import Incident
from sentinel.model.paging import IncidentPage, PageHold, RouteStatus
from sentinel.model.state import RunState

KEYS_KEPT = 64  # of the triggers of one incident, the newest
ROUTES_KEPT = 32  # routes of one page, those of policies before this one among them


def raised(state: RunState, at_s: float, fact: f.PageRaised) -> RunState:
    def with_page(incident: Incident) -> Incident:
        known = incident.page
        if known is None:
            return replace(incident, page=_page(fact, at_s), acknowledged_by="")
        version = known.version + 1
        if fact.anew:
            page = replace(_page(fact, at_s), number=known.number + 1, version=version, routes=known.routes)
            return replace(incident, page=page, acknowledged_by="")
        page = replace(
            known, severity=fact.severity, title=fact.title, text=fact.text, version=version,
            reason=fact.reason, notes=fact.notes, runbook_url=fact.runbook_url,
        )  # fmt: skip
        return replace(incident, page=page)

    return change_incident(state, fact.incident, with_page)


def held(state: RunState, at_s: float, fact: f.PageHeld) -> RunState:
    def waits(page: IncidentPage) -> IncidentPage:
        before = page.hold
        hold = PageHold(fact.routes, at_s, fact.windows, fact.until_s, fact.timezone, fact.incidents) if fact.routes else None
        if before is not None and hold is not None:
            hold = replace(hold, since_s=before.since_s)
        if before is None or set(before.routes) <= set(fact.routes):
            return replace(page, hold=hold)
        return replace(page, hold=hold, freed_s=at_s, freed_from=before)

    return _change(state, fact.incident, waits)


def resolved(state: RunState, at_s: float, fact: f.PageResolved) -> RunState:
    def closed(page: IncidentPage) -> IncidentPage:
        return replace(page, resolved=fact.reason, resolved_by=fact.by, resolved_s=at_s)

    return _change(state, fact.incident, closed)


def acknowledged(state: RunState, at_s: float, number: int, by: str) -> RunState:
    state = change_incident(state, number, lambda i: replace(i, acknowledged_by=by))
    return _change(state, number, lambda page: replace(page, acknowledged_by=by, acknowledged_s=at_s))


def decided(state: RunState, at_s: float, action: SendPage) -> RunState:
    if action.stage == "trigger":
        state = change_incident(state, action.incident, lambda i: replace(i, pages=_with_key(i.pages, action.key)))

    def sent(page: IncidentPage, status: RouteStatus) -> RouteStatus:
        status = replace(status, sent=status.sent + 1, version=page.version, under_way=action.stage, trouble="")
        if action.stage == "trigger":
            return replace(status, number=page.number, triggered_s=at_s, acknowledged=False, failed=False)
        if action.stage == "acknowledge":
            return replace(status, acknowledged=True)
        return replace(status, is_open=status.is_open and action.stage != "resolve")

    return _change_status(state, action, sent)


def delivered(state: RunState, at_s: float, action: SendPage) -> RunState:
    def arrived(page: IncidentPage, status: RouteStatus) -> RouteStatus:
        del page
        status = replace(status, under_way=None)
        return replace(status, delivered=status.number, delivered_s=at_s, is_open=True) if action.stage == "trigger" else status

    return _change_status(state, action, arrived)


def abandoned(state: RunState, action: SendPage, fact: f.ActionAbandoned) -> RunState:
    """What was withdrawn under way may have arrived all the same: its route gets the end of the page too."""

    def lost(page: IncidentPage, status: RouteStatus) -> RouteStatus:
        del page
        if fact.withdrawn:
            return replace(status, under_way=None, is_open=True)
        return replace(status, under_way=None, trouble=fact.reason, failed=status.failed or action.stage == "trigger")

    return _change_status(state, action, lost)


def _page(fact: f.PageRaised, at_s: float) -> IncidentPage:
    return IncidentPage(
        fact.severity, fact.title, fact.text, at_s, reason=fact.reason, notes=fact.notes, runbook_url=fact.runbook_url
    )  # fmt: skip


def _with_key(keys: tuple[str, ...], key: str) -> tuple[str, ...]:
    return keys if key in keys else (*keys, key)[-KEYS_KEPT:]


def _change(state: RunState, number: int, change: Callable[[IncidentPage], IncidentPage]) -> RunState:
    return change_incident(state, number, lambda i: replace(i, page=change(i.page)) if i.page is not None else i)


def _change_status(state: RunState, action: SendPage, change: Callable[[IncidentPage, RouteStatus], RouteStatus]) -> RunState:
    """A message belongs to no page, and what has no route is of an older journal."""
    if action.stage == "message" or not action.route:
        return state

    def with_status(page: IncidentPage) -> IncidentPage:
        now = change(page, page.on(action.route))
        if all(status.route != action.route for status in page.routes):
            return replace(page, routes=(*page.routes, now)[-ROUTES_KEPT:])
        return replace(page, routes=tuple(now if status.route == action.route else status for status in page.routes))

    return _change(state, action.incident, with_status)
