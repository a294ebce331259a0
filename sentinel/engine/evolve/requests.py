"""The rules of `evolve` about what people ask. None of them decides anything; each reads only what its fact says."""

from __future__ import annotations

from sentinel.engine.evolve.attempts import change_attempt, proven
from sentinel.engine.evolve.incidents import change_incident
from sentinel.engine.evolve.nodes import readmitted
from sentinel.engine.evolve.pages import acknowledged
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.changed import replace
from sentinel.model.incidents import AwaitedApproval, Incident
from sentinel.model.state import REQUESTS_KEPT, Attempt, RunState
from sentinel.plan.overrides import without


def answered(state: RunState, at_s: float, fact: f.RequestAnswered) -> RunState:
    state = replace(state, answered_requests=(*state.answered_requests, fact.id)[-REQUESTS_KEPT:])
    if not fact.granted:
        return state
    match fact.wish:
        case w.PauseRun():
            return replace(state, paused=fact.by)
        case w.ResumeRun():
            return _lifted(replace(state, paused=""))
        case w.HoldRun():
            return replace(state, hold_by=fact.by)
        case w.RollBack() | w.LeaveOut():
            return _lifted(state)
        case w.Approve(incident=number):
            return _decided(state, at_s, fact, number, "approve")
        case w.Deny(incident=number):
            return _decided(state, at_s, fact, number, "deny")
        case w.Acknowledge(incident=number):
            return acknowledged(state, at_s, number, fact.by)
        case w.Readmit(node=node):
            return readmitted(state, node)
        case w.ChangeSettings() | w.Resolve() | w.Remark() | w.PruneCheckpoints() | w.ApplyPolicy():
            return state  # what follows from them are facts of their own


def _lifted(state: RunState) -> RunState:
    """A hold is over, whoever it was by, and so is the giving up that led to it."""
    return replace(state, held="", hold_by="", giving_up="", giving_up_reason="", without_progress=0)


def _decided(state: RunState, at_s: float, fact: f.RequestAnswered, number: int, answer: str) -> RunState:
    """Whoever decides has seen the page; a deadline has not."""
    state = change_incident(state, number, lambda i: _with_answer(i, answer))
    is_called = any(i.id == number and i.page is not None and not i.page.is_answered for i in state.incidents)
    return acknowledged(state, at_s, number, fact.by) if is_called and not w.is_deadline(fact.id) else state


def _with_answer(incident: Incident, answer: str) -> Incident:
    return replace(incident, approval=replace(incident.approval, answer=answer)) if incident.approval else incident


def approval_asked(state: RunState, at_s: float, fact: f.ApprovalAsked) -> RunState:
    del at_s
    asked = AwaitedApproval(fact.rung, fact.deadline_s, fact.otherwise, mark=fact.mark)
    return change_incident(state, fact.incident, lambda i: replace(i, approval=asked))


def overrides_answered(state: RunState, at_s: float, fact: f.OverridesAnswered) -> RunState:
    """What the trainer could not obey is not in force, and a relaunch does not ask for it again. An answer that obeys changes
    nothing that is wanted: a lapse may have failed while it was on its way."""
    del at_s

    def answered(a: Attempt) -> Attempt:
        held = a.before if fact.whole and a.before is not None else without(a.overrides, fact.not_in_force)
        return replace(a, answered=fact.id, overrides=replace(held, id=a.overrides.id, skip=a.overrides.skip))

    state = proven(change_attempt(state, fact.attempt, answered), fact.attempt, fact.proofs)
    if not fact.whole and not fact.not_in_force:
        return state
    attempt = state.attempt
    return replace(state, overrides=attempt.overrides) if attempt is not None and attempt.attempt == fact.attempt else state
