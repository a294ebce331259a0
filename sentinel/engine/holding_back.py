"""Pages that wait: for the end of a window that mutes them, for the end of the incident that they are a consequence of, or behind
the page of the same that keeps coming back (`coming_back`).

What waits is not lost. A page is raised as ever; only its delivery waits, on the routes that are held. When they are let go it is
due like any other page that nobody was told of: once, if it is still open by then. Nothing else in a run waits for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentinel.engine.coming_back import page_in_front
from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.incidents import Incident
from sentinel.model.paging import IncidentPage, PageHold
from sentinel.model.state import RunState
from sentinel.policy.quiet_hours import free_at, hold_words, is_active
from sentinel.policy.schema import Paging
from sentinel.policy.schema_mute import Inhibit, Mute


def update_hold(decision: Decision, number: int) -> None:
    """Put on record what keeps this page back now, where that is something else than before. A page that needs nobody any more
    waits for nothing."""
    incident, paging = decision.state.incident(number), decision.policy.spec.paging
    page = incident.page
    if page is None:
        return
    held = None if page.is_answered else _held_now(decision.state, incident, page, paging, decision.now_s)
    if held is None:
        if page.hold is not None and not page.is_answered:
            decision.record(f.PageHeld(number, ()))
    elif page.hold is None or held != _as_fact(number, page.hold):
        decision.record(held)


def is_unsaid(page: IncidentPage, paging: Paging) -> bool:
    """It waits for the end of a window, and was told to nobody on a route that would have had it at once."""
    hold = page.hold
    if page.is_answered or hold is None or not hold.windows or hold.until_s is None:
        return False
    at_once = (route for route in paging.routes if route.settings.after_s is None and route.is_for(page.severity))
    return any(route.name in hold.routes and page.on(route.name).number < page.number for route in at_once)


def hold_ends(pages: Sequence[IncidentPage]) -> str:
    """What holds the first of these pages that waits, and until when; empty where none does."""
    return next((hold_words(page.hold) for page in pages if page.hold is not None), "")


def mutes_of(paging: Paging, incident: Incident, severity: str, route: str, at_s: float) -> list[Mute]:
    """The windows that mute a page of this severity about this incident, on this route, at this time."""
    return [mute for mute in paging.mute if _is_about(mute, incident, severity, route) and is_active(mute, at_s)]


def _is_about(mute: Mute, incident: Incident, severity: str, route: str) -> bool:
    asked = (
        (mute.severities, severity),
        (mute.kinds, str(incident.kind)),
        (mute.rules, incident.alert),
        (mute.routes, route),
    )
    return all(not words or word in words for words, word in asked)


def _held_now(state: RunState, incident: Incident, page: IncidentPage, paging: Paging, now_s: float) -> f.PageHeld | None:
    found = {cause.id for one in paging.inhibit for cause in _causes(one, state, incident, page)}
    if (front := page_in_front(state, incident, page, now_s)) is not None:
        found.add(front.id)
    causes = tuple(sorted(found))
    muted = {route.name: mutes_of(paging, incident, page.severity, route.name, now_s) for route in paging.routes}
    routes = tuple(name for name, mutes in muted.items() if mutes or causes)
    if not routes:
        return None
    active = [mute for mute in paging.mute if any(mute in mutes for mutes in muted.values())]
    if not active:
        return f.PageHeld(incident.id, routes, incidents=causes)
    name = next(name for name, mutes in muted.items() if mutes)
    about = [mute for mute in paging.mute if _is_about(mute, incident, page.severity, name)]
    return f.PageHeld(
        incident.id, routes, tuple(mute.name for mute in active), free_at(about, now_s), active[0].timezone, causes
    )  # fmt: skip


def _causes(rule: Inhibit, state: RunState, incident: Incident, page: IncidentPage) -> Iterator[Incident]:
    """The open incidents because of which this one pages nobody, by this rule."""
    if page.severity not in rule.severities or not _is_named(rule.hold, incident):
        return
    for other in state.incidents:
        is_open = not other.is_closed or (other.page is not None and other.page.is_open)
        if other.id != incident.id and is_open and _is_named(rule.while_, other) and _agree(rule, other, incident):
            yield other


def _is_named(words: tuple[str, ...], incident: Incident) -> bool:
    return str(incident.kind) in words or incident.alert in words


def _agree(rule: Inhibit, one: Incident, other: Incident) -> bool:
    """What is not known is not the same as anything."""
    shared = {
        "attempt": (one.attempt, other.attempt),
        "node": (one.blamed_node or None, other.blamed_node or None),
        "rank": (one.blamed_rank, other.blamed_rank),
    }
    return all(shared[word][0] is not None and shared[word][0] == shared[word][1] for word in rule.equal)


def _as_fact(number: int, hold: PageHold) -> f.PageHeld:
    return f.PageHeld(number, hold.routes, hold.windows, hold.until_s, hold.timezone, hold.incidents)
