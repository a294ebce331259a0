"""The answer to a wish, and the answers that change no training: what is only taken note of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sentinel.engine.draft import Draft


class Answer(NamedTuple):
    """`then` carries out what was granted; None: refused."""

    words: str
    then: Callable[[], None] | None


def refuse(words: str) -> Answer:
    return Answer(words, None)


def nothing_more() -> None:
    """Granted, and the fact itself was all there was to do."""


def readmit(draft: Draft, node: str) -> Answer:
    out = [one.node for one in draft.state.excluded]
    if node not in out:
        return refuse(f"{node} is not left out (left out: {', '.join(out) or 'none'})")
    return Answer(f"{node} may be used again, from the next launch on", nothing_more)


def acknowledge(draft: Draft, number: int, by: str) -> Answer:
    incident = next((i for i in draft.state.incidents if i.id == number), None)
    if incident is None:
        known = ", ".join(str(i.id) for i in draft.state.incidents[-8:]) or "none"
        return refuse(f"there is no incident {number} (newest: {known})")
    if incident.acknowledged_by:
        return refuse(f"incident {number} was already acknowledged by {incident.acknowledged_by}")
    return Answer(f"incident {number} is acknowledged by {by}", nothing_more)
