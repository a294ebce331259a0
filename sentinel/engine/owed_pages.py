"""Pages that somebody must still get: reasons for a supervisor to stay when the run has ended, and for the next one not to take
its own start for an answer."""

from __future__ import annotations

from sentinel.engine.holding_back import is_unsaid
from sentinel.model.actions import SendPage
from sentinel.model.paging import IncidentPage
from sentinel.model.state import RunState
from sentinel.policy.schema import Paging, Route


def is_outcome_undelivered(state: RunState) -> bool:
    """A page is still to be sent, and no other route has delivered it either; or all that there are wait for a window's end."""
    calls = [a.incident for a in state.pending.values() if isinstance(a, SendPage) and a.stage == "trigger"]
    known = {i.id: i.page for i in state.incidents}
    if any((found := known.get(number)) is None or not found.is_delivered for number in calls):
        return True
    waits = any(page.hold is not None and page.hold.windows and not page.is_delivered for page in unanswered(state))
    return waits and not _reaches_anybody(state)


def uncalled(state: RunState) -> list[int]:
    """Incidents whose page is on its way, or waits for the end of a window."""
    on_its_way = {page.incident for page in state.pending.values() if isinstance(page, SendPage)}
    waits = {i.id for i in state.incidents if i.page is not None and not i.page.is_answered and i.page.hold is not None}
    return sorted(on_its_way | waits)


def is_owed(state: RunState, paging: Paging, now_s: float) -> bool:
    """The run has failed, nobody has answered, and a route is still to be tried: whoever leaves now leaves them uncalled. A run
    that has finished owes a page that is on its way, for as long as a route may take, and one that waits for the end of a window;
    unless another one got through, for whoever was called finds it, and a machine must not stand idle for a warning."""
    if state.ended not in ("failed", "finished") or state.stop_by:
        return False
    if any(is_unsaid(known, paging) for known in unanswered(state)) and not _reaches_anybody(state):
        return True
    statuses = (status for known in unanswered(state) for status in known.routes)
    on_its_way = any(t.under_way == "trigger" and now_s - t.triggered_s <= paging.deadline_s for t in statuses)
    if state.ended == "finished":
        return on_its_way and not any(page.is_delivered for page in unanswered(state))
    return on_its_way or any(is_waiting(state, route) for route in paging.routes)


def _reaches_anybody(state: RunState) -> bool:
    """A page that is open has reached somebody, or is on its way."""
    pages = (i.page for i in state.open_pages)
    return any(page is not None and (page.is_delivered or any(s.under_way == "trigger" for s in page.routes)) for page in pages)


def is_waiting(state: RunState, route: Route) -> bool:
    """The route waits its turn with a page that nobody has answered."""
    if route.settings.after_s is None:
        return False
    return any(known.on(route.name).number < known.number and route.is_for(known.severity) for known in unanswered(state))


def unanswered(state: RunState) -> list[IncidentPage]:
    return [i.page for i in state.incidents if i.page is not None and not i.page.is_answered]
