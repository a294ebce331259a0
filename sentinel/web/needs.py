"""What a run that is out of repairs needs of a person, in the order of reading: the cause, what trains now, what to type."""

from __future__ import annotations

from typing import Any

from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.paging.case_answers import answers
from sentinel.report.following import RunSnapshot


def needs_document(snapshot: RunSnapshot) -> dict[str, Any] | None:
    """None for a run that goes on by itself, or has ended as it was meant to."""
    state = snapshot.state
    if state.ended != "failed" and not state.held:
        return None
    incident = _last_straw(state)
    typed = answers(snapshot.run_dir, state, incident, "trigger")
    return {
        "head": "The run has failed" if state.ended else "The run is held and waits for a person",
        "incident": incident.id if incident is not None else None,
        "cause": f"{incident.kind}: {incident.reason}" if incident is not None else state.end_reason or state.held,
        "trains": _trains(snapshot.attempt_alive),
        "answers": [{"command": answer.command, "what": answer.what} for answer in typed],
    }


def _last_straw(state: RunState) -> Incident | None:
    """The newest that Sentinel had no repair left for."""
    return next((one for one in reversed(state.incidents) if one.state is IncidentState.EXHAUSTED), None)


def _trains(attempt_alive: bool | None) -> str:
    if attempt_alive is None:
        return "Whether anything of it trains is not known from here."
    return "Processes of its newest attempt are still there." if attempt_alive else "Nothing of it trains now."
