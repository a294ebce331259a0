"""The answer to a wish, and the answers that change no training: what is only taken note of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sentinel.engine.decision import Decision
from sentinel.engine.paging import resolve, send
from sentinel.model.incidents import Incident


class Answer(NamedTuple):
    """`then` carries out what was granted; None: refused."""

    words: str
    then: Callable[[], None] | None


def refuse(words: str) -> Answer:
    return Answer(words, None)


def nothing_more() -> None:
    """Granted, and the fact itself was all there was to do."""


def readmit(decision: Decision, node: str) -> Answer:
    out = [one.node for one in decision.state.excluded]
    if node not in out:
        return refuse(f"{node} is not left out (left out: {', '.join(out) or 'none'})")
    return Answer(f"{node} may be used again, from the next launch on", nothing_more)


def acknowledge(decision: Decision, number: int, by: str) -> Answer:
    incident = _find(decision, number)
    if isinstance(incident, Answer):
        return incident
    if incident.acknowledged_by:
        return refuse(f"incident {number} was already acknowledged by {incident.acknowledged_by}")
    if incident.page is not None and not incident.page.is_open:
        return refuse(f"the page of incident {number} is resolved: {incident.page.resolved}")
    return Answer(f"incident {number} is acknowledged by {by}", lambda: send(decision, number))


def settle(decision: Decision, number: int, by: str) -> Answer:
    incident = _find(decision, number)
    if isinstance(incident, Answer):
        return incident
    if incident.page is None:
        return refuse(f"nobody was called for incident {number} (open pages: {_numbers(decision.state.open_pages)})")
    if not incident.page.is_open:
        return refuse(f"the page of incident {number} is already resolved: {incident.page.resolved}")
    return Answer(f"the page of incident {number} is resolved", lambda: resolve(decision, number, "a person says so", by))


def _find(decision: Decision, number: int) -> Incident | Answer:
    found = next((i for i in decision.state.incidents if i.id == number), None)
    newest = _numbers(decision.state.incidents[-8:])
    return found if found is not None else refuse(f"there is no incident {number} (newest: {newest})")


def _numbers(incidents: tuple[Incident, ...]) -> str:
    return ", ".join(str(i.id) for i in incidents) or "none"
