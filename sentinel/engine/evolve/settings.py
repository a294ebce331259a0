"""The rules of `evolve` about settings that lapse. None of them decides anything; each reads only what its fact says."""

from __future__ import annotations

from sentinel.engine.evolve.attempts import change_attempt
from sentinel.engine.evolve.incidents import change_incident
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.state import Lapse, RunState
from sentinel.plan.overrides import without


def lapsed(state: RunState, at_s: float, fact: f.SettingLapsed) -> RunState:
    """Asked of the trainer, it takes effect when the change is written."""
    del at_s
    state = replace(state, lapse=Lapse(fact.attempt, fact.keys, fact.step, fact.before))
    if not fact.by_trainer:
        return state
    state = change_attempt(state, fact.attempt, lambda a: replace(a, overrides=without(a.overrides, fact.keys)))
    return replace(state, overrides=without(state.overrides, fact.keys))


def judged(state: RunState, at_s: float, fact: f.LapseJudged) -> RunState:
    del at_s
    state = replace(state, lapse=None, overrides=state.overrides if fact.overrides is None else fact.overrides)
    if fact.incident is None:
        return state
    if (attempt := state.attempt) is not None:
        # A change overtaken before it was confirmed may have reached the trainer: what is wanted is written in any case.
        state = change_attempt(state, attempt.attempt, lambda a: replace(a, overrides=without(a.overrides, fact.keys)))
    return change_incident(state, fact.incident, lambda i: replace(i, put_back=fact.keys))
