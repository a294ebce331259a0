"""Retention: old checkpoints are given up one at a time, in a healthy run only, as the policy's `checkpoints.retain` says.

Judged when a checkpoint was committed and when one was deleted, so a backlog goes one after the other and every time anew. What
is given up is out of the state from the decision on: no plan made while it is being deleted can pick it. Nothing older than what
was read whole is given up for what was not: where only that is missing, one checkpoint is read first, one for each that is
committed, and whoever reads behind training goes before.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.unusable_saves import on_whole_read
from sentinel.model import facts as f
from sentinel.model.actions import PruneCheckpoint, ReadAnchor
from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident
from sentinel.model.readings import CheckpointRead
from sentinel.model.state import Checkpoint
from sentinel.plan.ahead import newest_seen
from sentinel.plan.checkpoint_validation import NumbersVerdict, judge_numbers
from sentinel.plan.remedy import choose_checkpoint
from sentinel.plan.retention import (
    Retained,
    anchors_of,
    choose_anchor,
    choose_to_prune,
    is_sound,
    judge_retention,
    rule_of,
    why_not_now,
)
from sentinel.plan.sparing import NOT_BY_SENTINEL, choose_spared, why_not_spared
from sentinel.plan.trust import judge_trust

RETRY_S = 600.0  # what could not be deleted (no rights, a sick disk) is left alone for so long
ABOUT = "checkpoints"  # of notes
YOUNGEST = 1  # are not read by retention: what was written just now is not remembered
READ_BEHIND = 2  # of the newest, which the process that reads behind training takes by itself


def prune_next(decision: Decision, may_read: bool = True) -> None:
    """Decide to delete the oldest checkpoint that nobody needs, if there is one and nothing is wrong now. `may_read`: or to read
    one that stays, if that alone is missing."""
    rule, state, attempt = rule_of(decision.policy), decision.state, decision.attempt
    if rule is None or attempt is None or decision.observes_only or why_not_now(state):
        return
    if any(isinstance(action, (PruneCheckpoint, ReadAnchor)) for action in state.pending.values()):
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
    elif may_read:
        _read_one(decision, judged, judge_retention(trusts, rule, attempt.resumed_step, seen_step, as_if_read=True))


def _read_one(decision: Decision, judged: tuple[Retained, ...], as_if_read: tuple[Retained, ...]) -> None:
    skip = YOUNGEST if decision.policy.spec.checkpoints.verify == "full" else READ_BEHIND
    anchor = choose_anchor(judged, as_if_read, skip)
    if anchor is not None:
        _read(decision, anchor)


def why_not_pruned(decision: Decision) -> str:
    """Why nothing may be deleted now although a person asks for it; empty where it may."""
    attempt = decision.attempt
    if decision.is_observed_run:
        return NOT_BY_SENTINEL
    return why_not_spared(decision.state, is_watched=attempt is not None and decision.live.attempt == attempt.attempt)


def judged_now(decision: Decision, keep: int) -> tuple[Retained, ...]:
    """What a person's request to make room may delete, and what it may not."""
    return choose_spared(decision.state, decision.policy, keep, decision.newest_step, decision.reported_progress)


def anchor_now(decision: Decision, judged: tuple[Retained, ...], keep: int) -> Checkpoint | None:
    """What has to be read first so that a person gets all the room that there is; None where nothing has."""
    state, policy = decision.state, decision.policy
    then = choose_spared(state, policy, keep, decision.newest_step, decision.reported_progress, as_if_read=True)
    return choose_anchor(judged, then)


def read_first(decision: Decision, anchor: Checkpoint, keep: int) -> None:
    _read(decision, anchor, keep)


def prune(decision: Decision, judged: tuple[Retained, ...], keep: int) -> None:
    anchors = anchors_of(judged, keep)
    for one in judged:
        if one.prune:
            _give_up(decision, one, f"a person asked for room, and kept the newest {keep}", anchors)


def _give_up(decision: Decision, found: Retained, reason: str, anchors: tuple[str, ...]) -> None:
    step, digest = found.checkpoint.step, found.checkpoint.digest
    assert digest is not None, "what has no digest on record is kept"
    key = f"prune/{step}/{digest[:12]}"
    decision.decide(PruneCheckpoint(key, step, found.checkpoint.path, digest, reason, anchors, found.sound))


def _read(decision: Decision, anchor: Checkpoint, keep: int = 0) -> None:
    assert anchor.digest is not None, "what has no digest on record is no anchor"
    key = f"anchor/{anchor.step}/{anchor.digest[:12]}/{keep}"
    decision.decide(ReadAnchor(key, anchor.step, anchor.path, anchor.digest, keep))


def on_anchor_read(decision: Decision, action: ReadAnchor, read: CheckpointRead) -> None:
    """What was read of it is on record as if it had been read behind training; then what it allows is deleted. One that is
    damaged is the last that is read for now: retention reads another when the next is committed, and a person may ask again."""
    why = record_read(decision, read)
    if why:
        decision.note(ABOUT, f"the checkpoint of step {action.step} was to stay for older ones, and cannot: {why}")
    _go_on(decision, action)


def on_anchor_unread(decision: Decision, action: ReadAnchor, reason: str) -> None:
    """Not known to hold: nothing is deleted for it."""
    decision.note(ABOUT, f"the checkpoint of step {action.step} cannot be read whole: {reason}; nothing older is deleted for it")
    _go_on(decision, action)


def _go_on(decision: Decision, action: ReadAnchor) -> None:
    if not action.keep:
        prune_next(decision, may_read=False)
    elif busy := why_not_pruned(decision):
        decision.note(ABOUT, f"nothing is deleted for the person who asked: {busy}")
    else:
        _prune_for_person(decision, action.keep)


def _prune_for_person(decision: Decision, keep: int) -> None:
    judged = judged_now(decision, keep)
    if any(one.prune for one in judged):
        prune(decision, judged, keep)
        return
    sound = max((c.step for c in decision.state.checkpoints if is_sound(c)), default=None)
    stays = "none that stays is known to hold" if sound is None else f"step {sound} is the newest that was read whole and held"
    decision.note(ABOUT, f"nothing is deleted: {stays}; ask again, and the next one is read")


def record_read(decision: Decision, read: CheckpointRead) -> str:
    """A checkpoint that was read whole beside the training: condemned as it would be at a resume, or on record as whole, once;
    where all that is saved is damaged, a person is called. Why it is condemned, empty where it is not."""
    known = next((c for c in decision.state.checkpoints if c.step == read.step and c.digest == read.digest), None)
    if known is None or known.condemned:
        return ""
    verdict = judge_numbers(read.saved) if read.saved is not None else NumbersVerdict("bytes", read.damage)
    if verdict.evidence:
        decision.record(f.CheckpointCondemned(known.step, verdict.reason, damaged=True, evidence=verdict.evidence))
    elif read.saved is not None and read.saved.read is not None and not is_sound(known):
        decision.record(f.CheckpointVerified(known.step, read.digest, read.saved.read))
    on_whole_read(decision)
    return verdict.reason if verdict.evidence else ""


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
