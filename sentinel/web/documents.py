"""What the site shows of a run, as JSON documents; made of snapshots, entries and facts, and of nothing else. Ranks, GPUs,
checkpoints and logs are in `cards.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.client.strict_json import printable
from sentinel.engine.goodput import account
from sentinel.model import facts as f
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.report.cost import cost_cells, cost_words, due_words, incident_words
from sentinel.report.detectors import detector_rows
from sentinel.report.documents import incident_documents, status_document
from sentinel.report.events import incident_of
from sentinel.report.following import RunSnapshot
from sentinel.report.snapshot import still_since_s
from sentinel.run_files.stall import stall_of
from sentinel.terminal.words import describe
from sentinel.web.cards import rule_document

EVENTS_MAX = 500


def run_document(
    snapshot: RunSnapshot, schedule: Mapping[str, Any] | None, trouble: str, policy: Policy | None = None
) -> dict[str, Any]:
    """The document of `sentinel status --json`, and what only somebody who looks again and again asks. `schedule` None: it could
    not be read, which `trouble` says."""
    state = snapshot.state
    status = status_document(snapshot, policy, trouble)
    return status | {
        "detector_rows": detector_rows(status["detectors"], is_watched=snapshot.supervisor == "alive"),
        "cost_words": cost_words(status["cost"]),
        "due_words": due_words(status["forecast"], status["cost"]["currency"]),
        "cost_cells": cost_cells(status["cost"], status["forecast"]),
        "schedule": schedule,
        "seq": snapshot.seq,
        "now_s": snapshot.now_s,
        "elapsed_s": elapsed(snapshot.now_s, state),
        "began_at_s": state.created_s,
        "ended_at_s": _ended_at_s(state),
        "trouble": trouble,
        "newest": dict(snapshot.newest),
    }


def incidents_document(snapshot: RunSnapshot, policy: Policy | None = None) -> list[dict[str, Any]]:
    """As `sentinel incidents --json`, with what each cost as words, what the rule's author wrote, and the times in Unix seconds
    and on the run's clock."""
    state = snapshot.state
    documents = incident_documents(state, snapshot.losses, snapshot.senses.gpus_in_use)
    return [
        document | {"cost_words": _cost_words(document["cost"])} | rule_document(policy, incident) | _times(incident, state)
        for document, incident in zip(documents, state.incidents, strict=True)
    ]


def _cost_words(cost: Mapping[str, Any] | None) -> str:
    """Empty where it cost nothing that is known."""
    return incident_words(cost) if cost is not None and cost["lost_s"] else ""


def _times(incident: Incident, state: RunState) -> dict[str, Any]:
    return {
        "opened_at_s": incident.detected_s,
        "closed_at_s": incident.closed_s,
        "opened_elapsed_s": elapsed(incident.detected_s, state),
        "closed_elapsed_s": None if incident.closed_s is None else elapsed(incident.closed_s, state),
    }


def events_document(entries: Sequence[f.Entry], state: RunState, seq: int) -> dict[str, Any]:
    """The newest EVENTS_MAX of these that are shown to a person, oldest first."""
    events: list[dict[str, Any]] = []
    for entry in reversed(entries):
        line = describe(entry.fact, entry.at_s, state)
        if line is None:
            continue
        elapsed_s, about = elapsed(entry.at_s, state), incident_of(entry.fact)
        event = {"seq": entry.seq, "at_s": entry.at_s, "elapsed_s": elapsed_s, "text": printable(line.text), "tone": line.tone}
        events.append(event | {"incident": about})
        if len(events) == EVENTS_MAX:
            break
    return {"seq": seq, "events": events[::-1]}


def ledger_document(snapshot: RunSnapshot) -> dict[str, Any]:
    stall = stall_of(snapshot.state, snapshot.now_s, snapshot.senses)
    ledger = account(snapshot.state, snapshot.now_s, still_since_s(snapshot, stall))
    return {"accounts": dict(ledger.seconds), "goodput": ledger.goodput_ratio, "whole_s": ledger.total_s}


def elapsed(at_s: float, state: RunState) -> float:
    """On the run's own clock, which begins when it was created."""
    return round(max(0.0, at_s - state.created_s), 3)


def _ended_at_s(state: RunState) -> float | None:
    """When the last attempt of a run that has ended was over; None for one that goes on, or never launched anything."""
    return state.attempt.ended_s if state.ended and state.attempt is not None else None
