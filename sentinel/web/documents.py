"""What the site tells of a run, as JSON documents; made of sights, entries and facts, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.client.strict_json import printable
from sentinel.engine.goodput import account
from sentinel.model import facts as f
from sentinel.model.state import RunState
from sentinel.report.documents import Outside, incident_document, status_document
from sentinel.report.events import incident_of
from sentinel.report.following import Sight
from sentinel.terminal.words import describe

EVENTS_MAX = 500


def overview_document(name: str, sight: Sight) -> dict[str, Any]:
    """One row of the list of runs."""
    state = sight.state
    return {
        "name": name,
        "state": state.label,
        "step": sight.step,
        "total_steps": sight.total_steps,
        "goodput": round(account(state, sight.now_s).goodput_ratio, 4),
        "open_incidents": len(state.open_incidents),
        "paged": bool(state.open_pages),
        "supervisor": sight.supervisor,
    }


def run_document(sight: Sight, schedule: Mapping[str, Any] | None, trouble: str) -> dict[str, Any]:
    """The document of `sentinel status --json`, and what only somebody who looks again and again asks. `schedule` None: it could
    not be read, which `trouble` says."""
    state = sight.state
    outside = Outside(sight.step, sight.total_steps, sight.supervisor, sight.attempt_alive, trouble, sight.senses)
    return status_document(state, sight.now_s, outside) | {
        "schedule": schedule,
        "seq": sight.seq,
        "now_s": sight.now_s,
        "elapsed_s": elapsed(sight.now_s, state),
        "trouble": trouble,
        "newest": dict(sight.newest),
    }


def incident_documents(state: RunState) -> list[dict[str, Any]]:
    """As `sentinel incidents --json`, with the times on the run's own clock."""
    return [
        incident_document(incident)
        | {
            "opened_elapsed_s": elapsed(incident.detected_s, state),
            "closed_elapsed_s": None if incident.closed_s is None else elapsed(incident.closed_s, state),
        }
        for incident in state.incidents
    ]


def events_document(entries: Sequence[f.Entry], state: RunState, seq: int) -> dict[str, Any]:
    """The newest EVENTS_MAX of these that a person is told of, oldest first."""
    told: list[dict[str, Any]] = []
    for entry in reversed(entries):
        line = describe(entry.fact, entry.at_s, state)
        if line is None:
            continue
        elapsed_s, about = elapsed(entry.at_s, state), incident_of(entry.fact)
        said = {"seq": entry.seq, "at_s": entry.at_s, "elapsed_s": elapsed_s, "text": printable(line.text), "tone": line.tone}
        told.append(said | {"incident": about})
        if len(told) == EVENTS_MAX:
            break
    return {"seq": seq, "events": told[::-1]}


def ledger_document(sight: Sight) -> dict[str, Any]:
    ledger = account(sight.state, sight.now_s)
    return {"accounts": dict(ledger.seconds), "goodput": ledger.goodput_ratio, "whole_s": ledger.total_s}


def elapsed(at_s: float, state: RunState) -> float:
    """On the run's own clock, which begins when it was created."""
    return round(max(0.0, at_s - state.created_s), 3)
