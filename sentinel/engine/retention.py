"""Retention: old checkpoints are given up one at a time, in a healthy run only, as the policy's `checkpoints.retain` says.

Judged when a checkpoint was committed and when one was deleted, so a backlog goes one after the other and every time anew. What
is given up is out of the state from the decision on: no plan made while it is being deleted can pick it.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.model.actions import PruneCheckpoint
from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident
from sentinel.plan.ahead import newest_seen
from sentinel.plan.remedy import choose_checkpoint
from sentinel.plan.retention import Retained, anchors_of, choose_to_prune, judge_retention, rule_of, why_not_now
from sentinel.plan.sparing import NOT_BY_SENTINEL, choose_spared, why_not_spared
from sentinel.plan.trust import judge_trust

RETRY_S = 600.0  # what could not be deleted (no rights, a sick disk) is left alone for so long
ABOUT = "checkpoints"  # of notes


def prune_next(decision: Decision) -> None:
    """Decide to delete the oldest checkpoint that nobody needs, if there is one and nothing is wrong now."""
    rule, state, attempt = rule_of(decision.policy), decision.state, decision.attempt
    if rule is None or attempt is None or decision.observes_only or why_not_now(state):
        return
    if any(isinstance(action, PruneCheckpoint) for action in state.pending.values()):
        return
    failed_s = max((c.unpruned_s for c in state.checkpoints if c.unpruned_s is not None), default=None)
    if failed_s is not None and decision.now_s - failed_s < RETRY_S:
        return
    trusts = judge_trust(state, decision.policy.spec.probation.steps, decision.newest_step, decision.reported_progress)
    seen_step = newest_seen(state, decision.newest_step)
    judged = judge_retention(trusts, rule, attempt.resumed_step, seen_step)
    found = choose_to_prune(judged)
    if found is not None:
        _give_up(decision, found, found.reason, anchors_of(judged, rule.last))


def why_not_pruned(decision: Decision) -> str:
    """Why nothing may be deleted now although a person asks for it; empty where it may."""
    attempt = decision.attempt
    if decision.is_observed_run:
        return NOT_BY_SENTINEL
    return why_not_spared(decision.state, is_watched=attempt is not None and decision.live.attempt == attempt.attempt)


def judged_now(decision: Decision, keep: int) -> tuple[Retained, ...]:
    """What a person's request to make room may delete, and what it may not."""
    return choose_spared(decision.state, decision.policy, keep, decision.newest_step, decision.reported_progress)


def prune(decision: Decision, judged: tuple[Retained, ...], keep: int) -> None:
    anchors = anchors_of(judged, keep)
    for one in judged:
        if one.prune:
            _give_up(decision, one, f"a person asked for room, and kept the newest {keep}", anchors)


def _give_up(decision: Decision, found: Retained, reason: str, anchors: tuple[str, ...]) -> None:
    step, digest = found.checkpoint.step, found.checkpoint.digest
    assert digest is not None, "what has no digest on record is kept"
    key = f"prune/{step}/{digest[:12]}"
    decision.decide(PruneCheckpoint(key, step, found.checkpoint.path, digest, reason, anchors))


def on_pruned(decision: Decision, left_over: str) -> None:
    """It is gone. `left_over`: what of it could not be deleted yet."""
    if left_over:
        decision.note(ABOUT, left_over)
    prune_next(decision)


def on_not_pruned(decision: Decision, action: PruneCheckpoint, reason: str) -> None:
    again = f"tried again, but not before {time_words(RETRY_S)}"
    decision.note(ABOUT, f"the checkpoint of step {action.step} stays: {reason}; {again}")


def lost_to_retention(decision: Decision, incident: Incident, index: int) -> str:
    """Why rung `index` must not start the run from scratch: what it would have gone back to was deleted. Empty where it may."""
    state, rungs = decision.state, decision.rungs_of(incident)
    ever = choose_checkpoint(rungs, index, incident, (*state.checkpoints, *state.pruned), state.open_incidents).checkpoint
    if ever is None or ever not in state.pruned:
        return ""
    return (
        f"no checkpoint is left to go back to: that of step {ever.step} was deleted (spec.checkpoints.retain), and sentinel "
        "starts no run from scratch for that; restore one and start the run again, or begin a new run directory"
    )
