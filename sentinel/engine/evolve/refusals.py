"""The rules of `evolve` about launches that were refused: by the scheduler, which did not start them (they are not counted among
those of the run), and by the trainer, which does not know an argument."""

from __future__ import annotations

from collections.abc import Collection

from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce
from sentinel.model.changed import replace
from sentinel.model.state import REFUSED, Attempt, RunState
from sentinel.plan.overrides import without
from sentinel.plan.proving import SKIP


def engine_trouble(state: RunState, at_s: float, fact: f.EngineTrouble) -> RunState:
    del at_s
    return replace(state, engine_troubles=fact.times, engine_word=fact.line)


def arguments_refused(state: RunState, at_s: float, fact: f.ArgumentsRefused) -> RunState:
    """What was asked by these arguments is in force no more, and is not asked again."""
    del at_s
    reason = f"the trainer refused its argument {', '.join(fact.flags)} (attempt {fact.attempt})"
    known = tuple(one for one in state.refused if one[0] not in fact.keys)
    state = replace(state, refused=(*known, *((key, reason) for key in fact.keys)), overrides=less(state.overrides, fact.keys))
    return without_refused(state)


def without_refused(state: RunState) -> RunState:
    """What it can do and can be given, less what it has refused."""
    gone = {key for key, _ in state.refused}
    settable = None if state.settable is None else tuple(one for one in state.settable if one.partition("=")[0] not in gone)
    return replace(state, settable=settable, capabilities=tuple(one for one in state.capabilities if one not in gone))


def less(now: SettingsInForce, keys: Collection[str]) -> SettingsInForce:
    """`now` less these settings, and less what is left out where `skip` is one of them."""
    left = without(now, [key for key in keys if key != SKIP])
    return replace(left, skip=()) if SKIP in keys else left


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
