"""The list of runs: how each stands in a row, worst first, so that whoever is woken sees first what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sentinel.engine.goodput import account
from sentinel.model.incidents import Incident
from sentinel.model.state import UNSEEN, RunState
from sentinel.plan.last_straw import stands_still_for
from sentinel.policy.quiet_hours import hold_words
from sentinel.report.cause import cause_of
from sentinel.report.following import RunSnapshot
from sentinel.report.machine_warnings import machine_warnings
from sentinel.report.needs import unwatched_words
from sentinel.report.snapshot import is_idle, still_since_s
from sentinel.run_files.stall import run_word, stall_of

CALLED, FAILED, STRUGGLES, WAITS, WELL, OVER = range(6)
UNKNOWN = "unknown"
RECENT_ROWS = 120  # of the loss, in a row of the list
_URGENCY = {
    "failed": FAILED, "held": FAILED, "stalled": STRUGGLES, "recovering": STRUGGLES, "probation": STRUGGLES, "paused": WAITS,
    UNSEEN: STRUGGLES, "unobserved": WAITS, "finished": OVER, "stopped": OVER, "suspended": OVER,
}  # fmt: skip


def overview_document(name: str, snapshot: RunSnapshot, recent: Sequence[float], trouble: str = "") -> dict[str, Any]:
    """One row. `recent`: the newest losses, oldest first; what is no number is told as a word. `trouble`: why all this is older
    than it should be; such a run may be in any state by now."""
    state = snapshot.state
    stall = stall_of(state, snapshot.now_s, snapshot.senses)
    word = run_word(state, stall)
    incident = _worst(state)
    threats = [one["words"] for one in machine_warnings(state, snapshot.now_s, snapshot.senses)]
    unwatched = unwatched_words(snapshot)
    alarm = "; ".join(filter(None, (unwatched, *threats)))
    return {
        "name": name,
        "began": int(state.created_s),
        "state": word,
        "urgency": min(_urgency(word, snapshot), STRUGGLES if trouble else OVER),
        "gravity": 0 if is_idle(snapshot) else _gravity(word, incident),
        "reason": stall.words(snapshot.now_s) if stall else cause_of(state) or state.end_reason or state.waits_for or alarm,
        "step": snapshot.step,
        "total_steps": snapshot.total_steps,
        "goodput": round(account(state, snapshot.now_s, still_since_s(snapshot, stall)).goodput_ratio, 4),
        "open_incidents": len(state.open_incidents),
        "incident": None if incident is None else _incident_row(incident, is_over=bool(state.ended)),
        "paged": bool(state.open_pages),
        "supervisor": snapshot.supervisor,
        "trouble": trouble,
        "unwatched": unwatched if incident is not None else "",
        "loss": list(recent),
    }


def unread_document(name: str, trouble: str) -> dict[str, Any]:
    """A row of a run of which nothing could be read, with the reason: it is there, and how it stands is not known."""
    return {
        "name": name, "began": None, "state": UNKNOWN, "urgency": STRUGGLES, "gravity": 2, "reason": "", "step": None,
        "total_steps": None, "goodput": None, "open_incidents": 0, "incident": None, "paged": False, "supervisor": UNKNOWN,
        "trouble": trouble, "unwatched": "", "loss": [],
    }  # fmt: skip


def order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Worst first, and by name among equals: a row does not jump while nothing about its run changes."""
    return sorted(rows, key=lambda row: (row["urgency"], row["gravity"], row["name"]))


def _urgency(word: str, snapshot: RunSnapshot) -> int:
    """Called: a page is open that nobody has acknowledged. A run that trains on without a supervisor waits for one. One that died
    with it is as good as failed, and so is one with an open incident: what its state promises, nobody does."""
    state = snapshot.state
    if any(incident.page is not None and not incident.page.is_answered for incident in state.open_pages):
        return CALLED
    if is_idle(snapshot) or (state.open_incidents and not state.ended and snapshot.supervisor in ("gone", "stuck")):
        return FAILED
    known = _URGENCY.get(word)
    if known is not None:
        return known
    if state.open_incidents:
        return STRUGGLES
    return WELL if snapshot.supervisor == "alive" else WAITS


def _gravity(word: str, incident: Incident | None) -> int:
    """Among runs that are equally urgent: one of which nothing trains stands before one that trains, whatever calls for it."""
    if _URGENCY.get(word) == FAILED:
        return 0
    return 1 if incident is not None and incident.severity == "critical" else 2


def _worst(state: RunState) -> Incident | None:
    """What the run failed of or is held for; else whose page is open, a critical one first; else the newest that is open."""
    paged = max(state.open_pages, key=lambda one: (one.severity == "critical", one.id), default=None)
    return stands_still_for(state) or paged or next(reversed(state.open_incidents), None)


def _incident_row(incident: Incident, *, is_over: bool) -> dict[str, Any]:
    page = incident.page
    called = () if page is None else tuple(status.route for status in page.routes if status.delivered)
    return {
        "id": incident.id,
        "kind": str(incident.kind),
        "onset_step": incident.onset_step,
        "reason": incident.reason,
        "awaits_approval": incident.awaits_approval and not is_over,
        "called": list(called),
        "acknowledged_by": incident.acknowledged_by,
        **({} if page is None or page.holds_back is None else {"held": hold_words(page.holds_back)}),
    }
