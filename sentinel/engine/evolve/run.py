"""The rules of `evolve` about the run as a whole: its beginning, its supervisors, its holds and its end. None of them decides
anything; each reads only what its fact says."""

from __future__ import annotations

from types import MappingProxyType

from sentinel.engine.evolve import attempts as of_attempts
from sentinel.engine.evolve.refusals import without_refused
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.state import PRUNED_KEPT, AppliedPolicy, RunState


def created(state: RunState, at_s: float, fact: f.RunCreated) -> RunState:
    return replace(
        state,
        run_id=fact.run_id,
        command=fact.command,
        command_digest=fact.command_digest,
        cwd=fact.cwd,
        created_s=at_s,
        policy_name=fact.policy_name,
        policy_digest=fact.policy_digest,
        observe_only=fact.observe_only,
        capabilities=fact.capabilities,
    )


def command_changed(state: RunState, at_s: float, fact: f.CommandChanged) -> RunState:
    del at_s
    before = state.command_before or fact.before
    return replace(state, command=fact.command, command_digest=fact.command_digest, cwd=fact.cwd, command_before=before)


def policy_applied(state: RunState, at_s: float, fact: f.PolicyApplied) -> RunState:
    """In force over restarts, until a supervisor takes over by another. What the one before dismissed may matter to this one."""
    dismissed = frozenset(state.dismissed)
    return replace(
        state,
        findings=tuple(key for key in state.findings if key not in dismissed),
        dismissed=(),
        policy_name=fact.name,
        policy_digest=fact.digest,
        is_policy_new=True,
        applied=AppliedPolicy(
            fact.path, fact.by, fact.note, at_s, fact.before, fact.named, fact.named_digest, fact.attempt, fact.step
        ),
    )


def took_over(state: RunState, at_s: float, fact: f.SupervisorTookOver) -> RunState:
    """A new session. A person who starts an ended run again has answered its page: the end and the hold are lifted. A hold, or
    giving up, during which the supervisor died goes on: whoever restarted it need not be a person. Nor need they be where the run
    was suspended: that end alone is lifted."""
    suspended = state.ended == "suspended"
    answered = bool(state.ended) and fact.answers and not suspended
    lifted = answered or suspended
    state = of_attempts.pardoned(state) if answered else state
    keeps = fact.arguments == state.arguments and not answered  # whoever starts it again may have mended the trainer
    state = replace(
        state,
        epoch=fact.epoch,
        session_s=at_s,
        is_policy_new=False,
        applied=state.applied if fact.policy_digest == state.policy_digest else None,
        policy_name=fact.policy_name,
        policy_digest=fact.policy_digest,
        observe_only=fact.observe_only,
        capabilities=state.capabilities if fact.capabilities is None else fact.capabilities,
        settable=fact.settable,
        arguments=fact.arguments,
        status_lost=fact.status_lost,
        rows_late=fact.rows_late,
        refused=state.refused if keeps else (),
        stop_answer_s=fact.stop_answer_s,
        price=fact.price,
        stop_by="",
        stop_resumes=False,
        deadline_s=fact.deadline_s,
        deadline_by=fact.deadline_by,
        held="" if answered else state.held,
        hold_by="" if answered else state.hold_by,
        giving_up="" if answered else state.giving_up,
        giving_up_reason="" if answered else state.giving_up_reason,
        ended="" if lifted else state.ended,
        end_reason="" if lifted else state.end_reason,
        blind=MappingProxyType({}),
        blind_since_s=MappingProxyType({}),
        without_progress=0 if answered else state.without_progress,
    )
    return without_refused(state) if state.refused else state


def stop_asked(state: RunState, at_s: float, fact: f.StopAsked) -> RunState:
    del at_s
    return replace(state, stop_by=fact.by, stop_resumes=fact.resumes)


def held(state: RunState, at_s: float, fact: f.Held) -> RunState:
    return replace(_idle(state, at_s), held=fact.reason, hold_by="")


def _idle(state: RunState, at_s: float) -> RunState:
    last = state.attempt
    if last is None or not last.is_over or last.idle_s is not None:
        return state
    return of_attempts.change_attempt(state, last.attempt, lambda a: replace(a, idle_s=at_s))


def budget_refilled(state: RunState, at_s: float, fact: f.BudgetRefilled) -> RunState:
    del at_s, fact
    return replace(state, interventions_s=(), restarts_s=())


def gave_up(state: RunState, at_s: float, fact: f.GaveUp) -> RunState:
    del at_s
    return state if fact.then == "keep_training" else replace(state, giving_up=fact.then, giving_up_reason=fact.reason)


def ended(state: RunState, at_s: float, fact: f.RunEnded) -> RunState:
    return replace(_idle(state, at_s), ended=fact.outcome, end_reason=fact.reason, plan=None, inspection=None, hold_by="")


def journal_adopted(state: RunState, at_s: float, fact: f.JournalAdopted) -> RunState:
    del at_s, fact
    return state


def restored(state: RunState, at_s: float, fact: f.RunRestored) -> RunState:
    """The checkpoints that did not come along are gone."""
    del at_s
    gone = tuple(replace(c, pruned=f"not on the mirror at {fact.mirror}") for c in state.checkpoints if c.step not in fact.steps)
    kept = tuple(c for c in state.checkpoints if c.step in fact.steps)
    pruned = (*state.pruned, *gone)[-PRUNED_KEPT:]
    number = max(state.next_attempt, fact.newest_attempt + 1)
    return replace(state, checkpoints=kept, pruned=pruned, next_attempt=number)


def journal_salvaged(state: RunState, at_s: float, fact: f.JournalSalvaged) -> RunState:
    """The attempts of the lost entries are unknown; their numbers are used up, since their folders hold their streams."""
    del at_s
    return replace(state, next_attempt=max(state.next_attempt, fact.newest_attempt + 1))


def log_matched(state: RunState, at_s: float, fact: f.LogMatched) -> RunState:
    del at_s
    of_this = tuple(known for known in state.log_matches if known[0] == fact.attempt)
    return replace(state, log_matches=(*of_this, (fact.attempt, fact.name)))
