"""Why a run stands still: what broke it, and not which rung of which playbook gave up."""

from __future__ import annotations

from sentinel.model.incidents import Incident, IncidentState, Outcome, Try
from sentinel.model.state import RunState
from sentinel.plan.last_straw import last_straw


def cause_of(state: RunState) -> str:
    """Of a run that has failed or is held; empty for any other."""
    if state.ended != "failed" and (state.ended or not state.held):
        return ""
    incident = last_straw(state)
    return f"{incident.kind}: {incident.reason}" if incident is not None else state.end_reason or state.held


def tried_words(state: RunState, incident: Incident) -> str:
    """How many repairs it took, and what the last one failed of: that may be something else than what began it. An incident that
    came of the repairs of another one, such as a job that dies at each launch, counts those."""
    own = _tries(incident)
    source = None if own else _source(state, incident)
    tries = own if source is None else _tries(source)
    if not tries:
        return "No repair was tried."
    about = "" if source is None else f" for incident {source.id} ({source.kind})"
    one = f"One repair was tried{about}; it"
    count = f"{len(tries)} repairs were tried{about}; the last" if len(tries) > 1 else one
    last = tries[-1]
    return f"{count} {str(last.outcome).replace('_', ' ')}" + (f": {last.reason}" if last.reason else "")


def _tries(incident: Incident) -> list[Try]:
    return [one for one in incident.tries if one.outcome is not Outcome.PAGED]


def _source(state: RunState, incident: Incident) -> Incident | None:
    """The newest before it that had no repair left when it was seen."""
    earlier = [one for one in state.incidents if one.id < incident.id and one.state is IncidentState.EXHAUSTED]
    return earlier[-1] if earlier and earlier[-1].closed_s == incident.detected_s else None
