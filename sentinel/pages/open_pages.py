"""The pages that stand open on a route, as the run's state has them: told there, and neither resolved nor being resolved."""

from __future__ import annotations

from sentinel.model.actions import SendPage
from sentinel.model.incidents import Incident
from sentinel.model.paging import Page
from sentinel.model.state import RunState


def open_pages(state: RunState, route: str) -> tuple[SendPage, ...]:
    """Each as the action that would tell it again now."""
    return tuple(_told(one, one.page, route) for one in state.incidents if one.page is not None and one.page.on(route).is_open)


def _told(incident: Incident, page: Page, route: str) -> SendPage:
    said = (f"keep/{incident.id}/{route}", incident.id, page.severity, page.title, page.text)
    return SendPage(*said, "acknowledge" if page.acknowledged_by else "trigger", route, page.acknowledged_by)
