"""The rules of `evolve` about nodes: which are left out, which are blamed, what checks of them came to. None of them decides
anything; each reads only what its fact says."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.node_checks import Blame
from sentinel.model.state import BLAMES_KEPT, Excluded, RunState
from sentinel.plan.exclusion import short


def excluded(state: RunState, at_s: float, fact: f.NodeExcluded) -> RunState:
    return replace(state, excluded=(*state.excluded, Excluded(fact.node, fact.incident, at_s)))


def readmitted(state: RunState, node: str) -> RunState:
    """Used again, and nothing is held against it."""
    left = tuple(one for one in state.excluded if one.node != node)
    return replace(state, excluded=left, blames=_without(state.blames, {short(node)}))


def blamed(state: RunState, at_s: float, fact: f.NodeBlamed) -> RunState:
    del at_s
    newest = Blame(fact.node, fact.times, fact.incident, fact.attempt)
    return replace(state, blames=(*_without(state.blames, {short(fact.node)}), newest)[-BLAMES_KEPT:])


def checked(state: RunState, at_s: float, fact: f.NodesChecked) -> RunState:
    """What was healthy is blamed for nothing any more. Of the others it is known that they were asked."""
    del at_s
    blames = _without(state.blames, {short(node) for node in fact.healthy})
    asked = {short(word.node) for word in (*fact.sick, *fact.unknown)}
    return replace(state, blames=tuple(replace(one, is_checked=True) if short(one.node) in asked else one for one in blames))


def _without(blames: tuple[Blame, ...], names: set[str]) -> tuple[Blame, ...]:
    return tuple(one for one in blames if short(one.node) not in names)
