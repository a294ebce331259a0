"""The rules of `evolve` about launches that the scheduler did not start: they are not counted among those of the run."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.state import REFUSED, Attempt, RunState


def engine_trouble(state: RunState, at_s: float, fact: f.EngineTrouble) -> RunState:
    del at_s
    return replace(state, engine_troubles=fact.times, engine_word=fact.line)


def uncounted(state: RunState, attempt: Attempt) -> RunState:
    """It was never started, so it is no restart."""
    return replace(state, restarts_s=tuple(at_s for at_s in state.restarts_s if at_s != attempt.launched_s))


def begun(state: RunState) -> RunState:
    """The scheduler has started something."""
    return replace(state, engine_troubles=0, engine_word="") if state.engine_troubles else state


def is_first_launch(state: RunState, fact: f.AttemptLaunched) -> bool:
    """The first of a run, or none before it was started."""
    was_refused = bool(state.attempts) and not state.archive.attempts and all(a.outcome == REFUSED for a in state.attempts)
    return fact.attempt == 1 or was_refused
