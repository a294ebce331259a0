"""The pages that stand open on a route, as the run's state has them: told there, the matter neither resolved nor taken up."""

from __future__ import annotations

from sentinel.model.actions import SendPage
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState


def open_pages(state: RunState, route: str) -> tuple[SendPage, ...]:
    """Each as the action that would tell it again now."""
    if state.ended == "finished":
        return ()
    return tuple(_told(state, incident, route) for incident in state.incidents if _is_open(incident))


def _is_open(incident: Incident) -> bool:
    return bool(incident.pages) and incident.state is not IncidentState.RECOVERED


def _told(state: RunState, incident: Incident, route: str) -> SendPage:
    where = f"since step {incident.onset_step}" if incident.onset_step is not None else f"at step {incident.break_step}"
    return SendPage(
        f"keep/{incident.id}/{route}",
        incident.id,
        incident.severity,
        f"{state.run_id}: {incident.kind} {where}",
        "\n".join(filter(None, [f"{incident.alert}: {incident.reason}", incident.verdict])),
        "acknowledge" if incident.acknowledged_by else "trigger",
        route,
        incident.acknowledged_by,
    )
