"""The page of an incident as a document and in words: since when it is open, who was called on which route, who has answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident
from sentinel.model.paging import IncidentPage, RouteStatus
from sentinel.model.state import RunState
from sentinel.policy.quiet_hours import hold_words


def page_document(incident: Incident) -> dict[str, Any] | None:
    """None where nobody is called. `raised_s` is session time. Of a page that waits only: `held`, why and until when in words,
    `held_until_s` (session time; null: no end in sight) and `held_on`, the routes."""
    page = incident.page
    if page is None:
        return None
    held = page.holds_back
    return {
        "incident": incident.id,
        "severity": page.severity,
        "title": page.title,
        "text": page.text,
        "open": page.is_open,
        "raised_s": page.raised_s,
        "times_raised": page.number,
        "told": [_delivery_document(page, one) for one in page.routes],
        "acknowledged_by": page.acknowledged_by,
        "resolved": page.resolved,
        "resolved_by": page.resolved_by,
        **({} if held is None else {"held": hold_words(held), "held_until_s": held.until_s, "held_on": list(held.routes)}),
    }


def pages_document(state: RunState, now_s: float) -> list[dict[str, Any]]:
    """The open pages, the oldest first; `open_for_s` beside what `page_document` says."""
    found = (page_document(incident) for incident in state.open_pages)
    return [{**page, "open_for_s": round(max(0.0, now_s - page["raised_s"]), 3)} for page in found if page is not None]


def page_rows(pages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Rows of `sentinel status`, which says above them what answers a page."""
    rows = []
    for page in pages:
        head = f"incident {page['incident']} ({page['severity']}), open for {time_words(page['open_for_s'])}"
        seen = f"acknowledged by {page['acknowledged_by']}" if page["acknowledged_by"] else "nobody has answered"
        head += f", {page['held']}" if "held" in page else ""
        rows.append(("page", f"{head}: {delivery_words(page)}; {seen}"))
    return rows


def page_story(page: Mapping[str, Any]) -> list[str]:
    """Lines of `sentinel incidents`."""
    times = f" {page['times_raised']} times" if page["times_raised"] > 1 else ""
    is_untold = "held" in page and not page["told"]
    called = f"a person is to be called ({page['severity']}), and nobody was yet" if is_untold else (
        f"a person was called{times} ({page['severity']}): {delivery_words(page)}"
    )
    lines = [called if is_untold else f"{called}; incidents/{page['incident']:04d}/page.json"]
    if "held" in page:
        lines.append(f"its page is held back: {page['held']}")
    if page["acknowledged_by"]:
        lines.append(f"acknowledged by {page['acknowledged_by']}")
    if not page["open"]:
        by = f" by {page['resolved_by']}" if page["resolved_by"] else ""
        lines.append(f"its page was resolved{by}: {page['resolved']}")
    elif not page["acknowledged_by"]:
        lines.append(f"its page is open, {_not_seen(page['incident'])}")
    return lines


def delivery_words(page: Mapping[str, Any]) -> str:
    """`told on terminal; phone: not delivered (no answer)`."""
    on = [delivery["route"] for delivery in page["told"] if delivery["state"] == "delivered"]
    words = [f"told on {', '.join(on)}"] if on else ["nobody is told yet"]
    for delivery in page["told"]:
        if delivery["state"] != "delivered":
            why = f" ({delivery['trouble']})" if delivery["trouble"] else ""
            words.append(f"{delivery['route']}: {delivery['state']}{why}")
    return "; ".join(words)


def _delivery_document(page: IncidentPage, delivery: RouteStatus) -> dict[str, Any]:
    """`state`: of the present raising: delivered | under way | not delivered."""
    state = "delivered" if delivery.delivered == page.number else "under way" if delivery.under_way else "not delivered"
    return {"route": delivery.route, "state": state, "delivered_s": delivery.delivered_s, "trouble": delivery.trouble}


def _not_seen(number: int) -> str:
    return f"nobody has answered: sentinel ack {number} RUN_DIR"
