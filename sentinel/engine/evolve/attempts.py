"""The rules of `evolve` about attempts and checkpoints. None of them decides anything; each reads only what its fact says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sentinel.engine.evolve.refusals import begun, is_first_launch, uncounted
from sentinel.engine.goodput import fold_oldest
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.incidents import Incident, Outcome, Try
from sentinel.model.proof import Proof, merge_proofs
from sentinel.model.state import (
    ATTEMPTS_KEPT,
    MARKS_KEPT,
    QUARANTINED_KEPT,
    REFUSED,
    STAMPS_KEPT,
    Attempt,
    Checkpoint,
    Inspection,
    Mark,
    RunState,
    UnseenAttempt,
)
from sentinel.plan.environment import merge
from sentinel.plan.verifying import rate_of

CHECKPOINTS_KEPT = 4096


def change_attempt(state: RunState, number: int, change: Callable[[Attempt], Attempt]) -> RunState:
    return replace(state, attempts=tuple(change(a) if a.attempt == number else a for a in state.attempts))


def launched(state: RunState, at_s: float, fact: f.AttemptLaunched) -> RunState:
    """Only what lies at or below the resume step is still this run's: the rest was moved aside before the launch."""
    resumed = fact.resume.step if fact.resume else 0
    attempt = Attempt(fact.attempt, at_s, fact.resume, fact.overrides, fact.why, resumed_step=resumed)
    restarts = state.restarts_s if is_first_launch(state, fact) else (*state.restarts_s, at_s)[-STAMPS_KEPT:]
    attempts, archive = (*state.attempts, attempt), state.archive
    while len(attempts) > ATTEMPTS_KEPT:
        attempts, archive = fold_oldest(attempts, archive, state.incidents)
    return replace(
        state,
        attempts=attempts,
        archive=archive,
        next_attempt=fact.attempt + 1,
        overrides=fact.overrides,
        restarts_s=restarts,
        checkpoints=tuple(c for c in state.checkpoints if c.step <= resumed),
        findings=(),
        dismissed=(),
        remarks=(),
    )


def inspection(state: RunState, at_s: float, fact: f.InspectionLaunched) -> RunState:
    """None of the run's attempts, but its number is used up: no other is ever launched under it."""
    return replace(state, inspection=Inspection(fact.attempt, fact.incident, at_s), next_attempt=fact.attempt + 1)


def environment_read(state: RunState, at_s: float, fact: f.EnvironmentRead) -> RunState:
    del at_s
    found = fact.environment
    state = replace(state, environment=merge(state.environment, found)) if found is not None else state
    state = replace(state, command_before=()) if state.command_before else state
    return change_attempt(state, fact.attempt, lambda a: replace(a, changes=fact.changes, unread=fact.unknown))


def receipt(state: RunState, at_s: float, fact: f.ReceiptSeen) -> RunState:
    def with_receipt(a: Attempt) -> Attempt:
        resumed = replace(a, receipt_s=at_s, resumed_step=fact.resumed_step, deterministic=fact.deterministic)
        return replace(resumed, world_size=fact.world_size, gpus=fact.gpus)

    state = replace(begun(state), listed=fact.capabilities) if state.listed != fact.capabilities else begun(state)
    return proven(change_attempt(state, fact.attempt, with_receipt), fact.attempt, fact.proofs)


def observed(state: RunState, at_s: float, fact: f.SettingObserved) -> RunState:
    del at_s
    return proven(state, fact.attempt, (fact.proof,))


def numbers_missing(state: RunState, at_s: float, fact: f.NumbersMissing) -> RunState:
    del at_s
    hole = (fact.first_step, fact.last_step)
    return change_attempt(state, fact.attempt, lambda a: replace(a, holes=(*a.holes, hole)))


def proven(state: RunState, number: int, proofs: tuple[Proof, ...]) -> RunState:
    """The attempt's settings, and those of the remedy that launched it or that is in force in it, are known so well."""
    if not proofs:
        return state
    state = change_attempt(state, number, lambda a: replace(a, proofs=merge_proofs(a.proofs, proofs)))
    attempt = next((a for a in state.attempts if a.attempt == number), None)
    live = attempt.overrides.incident if attempt is not None else None

    def of_try(incident: Incident, one: Try) -> Try:
        own = one.attempt == number or (one.remedy.live and incident.id == live and one.outcome is Outcome.PENDING)
        return replace(one, proofs=merge_proofs(one.proofs, proofs)) if own else one

    def of_incident(incident: Incident) -> Incident:
        return replace(incident, tries=tuple(of_try(incident, one) for one in incident.tries)) if incident.tries else incident

    return replace(state, incidents=tuple(of_incident(incident) for incident in state.incidents))


def first_step(state: RunState, at_s: float, fact: f.FirstStep) -> RunState:
    """A trainer that writes no receipt has begun with its first step."""

    def with_step(a: Attempt) -> Attempt:
        began_s = at_s if a.receipt_s is None else a.receipt_s
        return replace(a, first_step=fact.step, first_step_s=at_s, receipt_s=began_s)

    return change_attempt(begun(state), fact.attempt, with_step)


def checkpoint(state: RunState, at_s: float, fact: f.CheckpointCommitted) -> RunState:
    """Known by directory first or by event line first; the event's cost in seconds and the digest are kept from either."""
    is_newest = not state.checkpoints or state.checkpoints[-1].step < fact.step  # they stand by rising step
    known = None if is_newest else next((c for c in state.checkpoints if c.step == fact.step), None)
    same = known is not None and known.attempt == fact.attempt and fact.digest in (None, known.digest)
    new = Checkpoint(fact.step, fact.path, fact.attempt, fact.samples_end, fact.digest, committed_s=at_s, bytes=fact.bytes)
    if known is not None and same:
        new = replace(known, path=fact.path, samples_end=fact.samples_end, bytes=fact.bytes or known.bytes)
    rest = state.checkpoints if is_newest else tuple(c for c in state.checkpoints if c.step != fact.step)
    there = (*rest, new) if is_newest else tuple(sorted((*rest, new), key=lambda c: c.step))
    state = replace(state, checkpoints=there[-CHECKPOINTS_KEPT:])

    def marked(a: Attempt) -> Attempt:
        old = next((m for m in a.marks if m.step == fact.step), None)
        save_s, took_s = max(fact.seconds, old.save_s if old else 0.0), max(fact.took_s, old.took_s if old else 0.0)
        mark = Mark(fact.step, old.at_s if old else at_s, save_s, took_s)
        marks = sorted((*(m for m in a.marks if m.step != fact.step), mark), key=lambda m: m.step)
        while len(marks) > MARKS_KEPT:
            first, second = marks[:2]
            marks[:2] = [replace(second, save_s=first.save_s + second.save_s, took_s=max(first.took_s, second.took_s))]
        return replace(a, marks=tuple(marks))

    return change_attempt(state, fact.attempt, marked)


def condemned(state: RunState, at_s: float, fact: f.CheckpointCondemned) -> RunState:
    del at_s

    def condemn(c: Checkpoint) -> Checkpoint:
        if c.step != fact.step:
            return c
        return replace(c, condemned=fact.reason, damaged=fact.damaged, evidence=fact.evidence, verified="")

    return replace(state, checkpoints=tuple(condemn(c) for c in state.checkpoints))


def validated(state: RunState, step: int, detail: str) -> RunState:
    """A checkpoint was looked at before a resume, and held."""
    held = tuple(replace(c, verified=detail or "every byte was compared") if c.step == step else c for c in state.checkpoints)
    return replace(state, checkpoints=held)


def read_back(state: RunState, at_s: float, fact: f.CheckpointVerified) -> RunState:
    """By an action before a resume, whose own words say that it held; or behind training, and then these do."""

    def known(c: Checkpoint) -> Checkpoint:
        if c.step != fact.step or c.digest not in (None, fact.digest):
            return c  # what was verified is not what was committed
        if fact.key:
            c = replace(c, vouched_key=fact.key, vouched_s=at_s, vouched_how=fact.read.how)
        else:
            c = replace(c, is_remembered=True, verified=c.verified or f"read behind training: {fact.read.files} files hold")
        return replace(c, bytes=fact.read.bytes)

    state = replace(state, checkpoints=tuple(known(c) for c in state.checkpoints))
    rate = rate_of(fact.read)
    if rate is None:
        return state
    return replace(state, read_bytes_s=rate) if fact.key else replace(state, behind_bytes_s=rate)


def pardoned(state: RunState) -> RunState:
    """A person has answered: what was damaged may have been mended, and what failed again and again may have been the machine's
    fault. Both are looked at again, and verified before they are used."""

    def again(c: Checkpoint) -> Checkpoint:
        is_open = c.damaged or c.evidence == "failures"
        return replace(c, condemned="", damaged=False, evidence="") if is_open else c

    return replace(state, checkpoints=tuple(again(c) for c in state.checkpoints))


def quarantined(state: RunState, at_s: float, fact: f.CheckpointsQuarantined) -> RunState:
    del at_s
    doomed = (c for c in state.checkpoints if c.step > fact.above_step)
    moved = tuple(replace(c, condemned=f"{fact.reason}; {c.condemned}" if c.condemned else fact.reason) for c in doomed)
    kept = tuple(c for c in state.checkpoints if c.step <= fact.above_step)
    return replace(state, checkpoints=kept, quarantined=(*state.quarantined, *moved)[-QUARANTINED_KEPT:])


def stopping(state: RunState, at_s: float, fact: f.AttemptStopping) -> RunState:
    by = "" if state.giving_up else state.stop_by
    change = partial(replace, stopping=fact.reason, stopping_s=at_s, stopped_by=by, stop_resumes=bool(by) and state.stop_resumes)
    return change_attempt(state, fact.attempt, change)


def ended(state: RunState, at_s: float, fact: f.AttemptEnded) -> RunState:
    before = next(a for a in state.attempts if a.attempt == fact.attempt)
    state = uncounted(state, before) if fact.outcome == REFUSED else begun(state)
    state = seen_ended(state, fact.attempt)
    progressed = fact.last_step > state.best_step
    wanted = bool(before.stopping) or fact.outcome == "finished"
    state = change_attempt(
        state,
        fact.attempt,
        lambda a: replace(
            a,
            ended_s=at_s,
            outcome=fact.outcome,
            end_reason=fact.reason,
            last_step=fact.last_step,
            last_step_s=fact.last_step_s,
            ranks=fact.ranks,
        ),
    )
    is_counted = fact.outcome != REFUSED and not (wanted and before.first_step is not None)
    stuck = 0 if progressed else state.without_progress + int(is_counted)
    return replace(state, without_progress=stuck, best_step=max(state.best_step, fact.last_step))


def unseen(state: RunState, at_s: float, fact: f.AttemptUnseen) -> RunState:
    return replace(state, unseen=UnseenAttempt(fact.attempt, fact.reason, at_s, fact.ranks))


def seen_ended(state: RunState, number: int) -> RunState:
    """That it is gone is proven."""
    return replace(state, unseen=None) if state.unseen is not None and state.unseen.attempt == number else state
