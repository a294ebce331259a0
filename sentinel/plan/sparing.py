"""Which checkpoints a person may delete to make room: those that no resume and no rollback of the policy can need.

The words are those of retention, with as many of the newest as the person keeps. Nothing may go while anything is open or under
way, for what that goes back to is not decided yet. One exception: a launch that waits for room has decided, and stays possible.
"""

from __future__ import annotations

from sentinel.model.actions import StartAttempt
from sentinel.model.changed import replace
from sentinel.model.state import RunState
from sentinel.plan.ahead import NOTHING_REPORTED, ReportedProgress, newest_seen
from sentinel.plan.retention import SOURCES, Retained, RetentionRule, judge_retention, reach_of
from sentinel.plan.trust import judge_trust
from sentinel.policy.schema import Policy

KEEP = 3  # of the newest, where neither the person nor the policy says how many
RESUMES = "the launch that waits for room resumes from it"
NOT_BY_SENTINEL = "this run is only observed: sentinel deletes nothing of it"


def keep_of(policy: Policy) -> int:
    """As many of the newest as the policy's retention keeps; KEEP where it has none."""
    retain = policy.spec.checkpoints.retain
    return KEEP if retain is None else retain.last


def why_not_spared(state: RunState, *, is_watched: bool) -> str:
    """Why no checkpoint may be deleted now, whoever asks; empty where what is needed is known. `is_watched`: the newest attempt
    is being watched, so that its steps are known."""
    attempt, waiting = state.attempt, launch_held_back(state)
    if state.observe_only:
        return NOT_BY_SENTINEL
    if attempt is None or not state.checkpoints:
        return "no checkpoint is on record"
    if (state.plan is not None and waiting is None) or (state.giving_up and not state.held and not state.ended):
        return "a recovery is under way; ask again when the new attempt trains"
    for incident in state.open_incidents:
        if waiting is None or incident.is_numeric:
            return f"incident {incident.id} ({incident.kind}) is in {incident.state}: what it needs is not known yet"
    if attempt.is_over:
        return ""
    if not is_watched:
        return f"attempt {attempt.attempt} may train, and nobody watches it: `sentinel run` again first, or `sentinel stop`"
    if attempt.stopping or attempt.first_step is None:
        return f"attempt {attempt.attempt} has not made its first step, or is being ended: what it began with is not proven"
    blind = next((source for source in SOURCES if source in state.blind), "")
    return f"sentinel is blind for {blind}: whether the run is healthy is not known" if blind else ""


def choose_spared(
    state: RunState,
    policy: Policy,
    keep: int,
    newest_step: int | None,
    reported: ReportedProgress = NOTHING_REPORTED,
    as_if_read: bool = False,
) -> tuple[Retained, ...]:
    """The word over every checkpoint that lies there, by step; whether anything may be deleted now is not asked. `newest_step`
    and `reported`: of the living attempt, as `judge_trust` has them; `as_if_read`: as `judge_retention` has it."""
    retain = policy.spec.checkpoints.retain
    rule = RetentionRule(keep, None if retain is None else retain.every_steps, reach_of(policy))
    trusts = judge_trust(state, policy.spec.probation.steps, newest_step, reported)
    began_with = state.attempt.resumed_step if state.attempt is not None else 0
    judged = judge_retention(trusts, rule, began_with, newest_seen(state, newest_step), as_if_read)
    waiting = launch_held_back(state)
    if waiting is None or waiting.resume is None:
        return judged
    step = waiting.resume.step
    return tuple(replace(r, prune=False, reason=RESUMES) if r.checkpoint.step == step and r.prune else r for r in judged)


def launch_held_back(state: RunState) -> StartAttempt | None:
    """The launch that the plan has come to and that was not decided: it waits for room."""
    action = state.plan.actions[state.plan.next] if state.plan is not None else None
    return action if isinstance(action, StartAttempt) and action.key not in state.pending else None
