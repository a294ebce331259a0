"""What a run failed of, or is held for: one of its incidents."""

from __future__ import annotations

import math

from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState


def last_straw(state: RunState) -> Incident | None:
    """That Sentinel had no repair left for, and ended or held the run in its words; else the one that was given up last, whatever
    its number: what only tells a person is given up at once, and training goes on. None where no incident was."""
    spent = [one for one in state.incidents if one.state is IncidentState.EXHAUSTED]
    why = state.end_reason if state.ended else state.held
    named = [one for one in spent if why and one.verdict == why]
    return max(named or spent, key=lambda one: (math.inf if one.closed_s is None else one.closed_s, one.id), default=None)


def stands_still_for(state: RunState) -> Incident | None:
    """The same; None of a run that has neither failed nor is held."""
    is_still = state.ended == "failed" or (state.held and not state.ended)
    return last_straw(state) if is_still else None
