"""The pages that stand open on a route, as the run's state has them: told there, and nothing since has taken that back."""

from __future__ import annotations

from sentinel.model.actions import SendPage, Stage
from sentinel.model.paging import Page
from sentinel.model.state import RunState


def open_pages(state: RunState, route: str) -> tuple[SendPage, ...]:
    """Each as the action that would tell it again now."""
    there = ((incident.id, incident.page) for incident in state.open_pages if incident.page is not None)
    return tuple(_told(number, page, route) for number, page in there if page.on(route).is_open)


def _told(number: int, page: Page, route: str) -> SendPage:
    stage: Stage = "acknowledge" if page.acknowledged_by else "trigger"
    return SendPage(f"keep/{number}/{route}", number, page.severity, page.title, page.text, stage, route, page.acknowledged_by)
