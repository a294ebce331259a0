"""`evolve(state, at_s, fact) -> state`: the fold of facts, the only place that changes what Sentinel believes.

One function per fact, looked up in a table; none of them decides anything. An upgrade must not rewrite history, so these
may only read what the fact says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from sentinel.model import facts as f
from sentinel.model.actions import Action, SendPage, SignalRanks, StartAttempt, WriteOverrides
from sentinel.model.incidents import NEXT, Incident, IncidentState, Outcome, Try
from sentinel.model.state import (
    INCIDENTS_KEPT,
    MARKS_KEPT,
    STAMPS_KEPT,
    Attempt,
    Checkpoint,
    Mark,
    PlanInProgress,
    RunState,
)

K = TypeVar("K")
V = TypeVar("V")
FINDING_KEYS_KEPT = 256
CHECKPOINTS_KEPT = 4096
TRIES_KEPT = 64


def evolve(state: RunState, at_s: float, fact: f.Fact) -> RunState:
    """The state after this fact. Total over `Fact`: a kind without a rule is a programming error."""
    return _RULES[type(fact)](state, at_s, fact)


def _with(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return MappingProxyType({**mapping, key: value})


def _without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    return MappingProxyType({k: v for k, v in mapping.items() if k != key})


def _attempt(state: RunState, number: int, change: Callable[[Attempt], Attempt]) -> RunState:
    return replace(state, attempts=tuple(change(a) if a.attempt == number else a for a in state.attempts))


def _incident(state: RunState, number: int, change: Callable[[Incident], Incident]) -> RunState:
    return replace(state, incidents=tuple(change(i) if i.id == number else i for i in state.incidents))


def _created(state: RunState, at_s: float, fact: f.RunCreated) -> RunState:
    return replace(
        state,
        run_id=fact.run_id,
        command=fact.command,
        cwd=fact.cwd,
        created_s=at_s,
        policy_name=fact.policy_name,
        policy_digest=fact.policy_digest,
        observe_only=fact.observe_only,
        capabilities=fact.capabilities,
    )


def _took_over(state: RunState, at_s: float, fact: f.SupervisorTookOver) -> RunState:
    """A new session. A person who starts an ended run again has answered its page: the end and the hold are lifted."""
    del at_s
    return replace(
        state,
        epoch=fact.epoch,
        policy_name=fact.policy_name,
        policy_digest=fact.policy_digest,
        observe_only=fact.observe_only,
        stop_by="",
        held="",
        giving_up="",
        giving_up_reason="",
        ended="",
        end_reason="",
        blind=MappingProxyType({}),
        without_progress=0 if state.ended else state.without_progress,
    )


def _decided(state: RunState, at_s: float, fact: f.ActionDecided) -> RunState:
    del at_s
    action = fact.action
    state = replace(state, pending=_with(state.pending, action.key, action))
    if isinstance(action, SignalRanks):
        return _attempt(state, action.attempt, lambda a: replace(a, signalled=True))
    if isinstance(action, SendPage):
        return _incident(state, action.incident, lambda i: replace(i, pages=(*i.pages, action.key)))
    return state


def _confirmed(state: RunState, at_s: float, fact: f.ActionConfirmed) -> RunState:
    del at_s
    action = state.pending.get(fact.key)
    state = replace(state, pending=_without(state.pending, fact.key))
    if isinstance(action, WriteOverrides):
        written = action.overrides
        state = replace(_attempt(state, action.attempt, lambda a: replace(a, overrides=written)), overrides=written)
    plan = state.plan
    if plan is None or plan.actions[plan.next].key != fact.key:
        return state
    after = replace(plan, next=plan.next + 1)
    return replace(state, plan=None if after.next == len(after.actions) else after)


def _abandoned(state: RunState, at_s: float, fact: f.ActionAbandoned) -> RunState:
    del at_s
    return replace(state, pending=_without(state.pending, fact.key))


def _launched(state: RunState, at_s: float, fact: f.AttemptLaunched) -> RunState:
    """Only what lies at or below the resume step is still this run's: the rest was moved aside before the launch."""
    resumed = fact.resume.step if fact.resume else 0
    attempt = Attempt(fact.attempt, at_s, fact.resume, fact.overrides, fact.why, resumed_step=resumed)
    restarts = state.restarts_s if fact.attempt == 1 else (*state.restarts_s, at_s)[-STAMPS_KEPT:]
    return replace(
        state,
        attempts=(*state.attempts, attempt),
        next_attempt=fact.attempt + 1,
        overrides=fact.overrides,
        restarts_s=restarts,
        checkpoints=tuple(c for c in state.checkpoints if c.step <= resumed),
        findings=(),
    )


def _receipt(state: RunState, at_s: float, fact: f.ReceiptSeen) -> RunState:
    return _attempt(state, fact.attempt, lambda a: replace(a, receipt_s=at_s, resumed_step=fact.resumed_step))


def _first_step(state: RunState, at_s: float, fact: f.FirstStep) -> RunState:
    return _attempt(state, fact.attempt, lambda a: replace(a, first_step=fact.step, first_step_s=at_s))


def _checkpoint(state: RunState, at_s: float, fact: f.CheckpointCommitted) -> RunState:
    """Known by directory first or by event line first; the event's cost in seconds and the digest are kept from either."""
    known = next((c for c in state.checkpoints if c.step == fact.step), None)
    digest = fact.digest or (known.digest if known and known.attempt == fact.attempt else None)
    new = Checkpoint(fact.step, fact.path, fact.attempt, fact.samples_end, digest)
    rest = tuple(c for c in state.checkpoints if c.step != fact.step)
    state = replace(state, checkpoints=tuple(sorted((*rest, new), key=lambda c: c.step))[-CHECKPOINTS_KEPT:])

    def marked(a: Attempt) -> Attempt:
        old = next((m for m in a.marks if m.step == fact.step), None)
        mark = Mark(fact.step, old.at_s if old else at_s, max(fact.seconds, old.save_s if old else 0.0))
        marks = (*(m for m in a.marks if m.step != fact.step), mark)
        return replace(a, marks=tuple(sorted(marks, key=lambda m: m.step))[-MARKS_KEPT:])

    return _attempt(state, fact.attempt, marked)


def _condemned(state: RunState, at_s: float, fact: f.CheckpointCondemned) -> RunState:
    del at_s
    return replace(
        state, checkpoints=tuple(replace(c, condemned=fact.reason) if c.step == fact.step else c for c in state.checkpoints)
    )


def _quarantined(state: RunState, at_s: float, fact: f.CheckpointsQuarantined) -> RunState:
    del at_s
    return replace(state, checkpoints=tuple(c for c in state.checkpoints if c.step <= fact.above_step))


def _stopping(state: RunState, at_s: float, fact: f.AttemptStopping) -> RunState:
    return _attempt(state, fact.attempt, lambda a: replace(a, stopping=fact.reason, stopping_s=at_s))


def _ended(state: RunState, at_s: float, fact: f.AttemptEnded) -> RunState:
    before = next(a for a in state.attempts if a.attempt == fact.attempt)
    progressed = fact.last_step > state.best_step
    wanted = bool(before.stopping) or fact.outcome == "finished"
    state = _attempt(
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
    stuck = 0 if progressed else state.without_progress + (0 if wanted and before.first_step is not None else 1)
    return replace(state, without_progress=stuck, best_step=max(state.best_step, fact.last_step))


def _finding(state: RunState, at_s: float, fact: f.FindingRecorded) -> RunState:
    del at_s
    return replace(state, findings=(*state.findings, fact.finding.key)[-FINDING_KEYS_KEPT:])


def _opened(state: RunState, at_s: float, fact: f.IncidentOpened) -> RunState:
    del at_s
    kept = state.incidents
    while len(kept) >= INCIDENTS_KEPT:
        oldest = next((i for i in kept if i.is_closed), kept[0])
        kept = tuple(i for i in kept if i.id != oldest.id)
    return replace(state, incidents=(*kept, fact.incident), next_incident=fact.incident.id + 1)


def _rung(state: RunState, at_s: float, fact: f.RungTaken) -> RunState:
    taken = Try(fact.remedy, at_s, fact.step)
    if fact.intervention:
        stamps = (*state.interventions_s, at_s)[-STAMPS_KEPT:]
        state = replace(state, interventions_s=stamps, intervention_step=fact.step)

    def climbed(i: Incident) -> Incident:
        return replace(i, rung=fact.remedy.rung, break_step=max(i.break_step, fact.step), tries=(*i.tries, taken)[-TRIES_KEPT:])

    return _incident(state, fact.incident, climbed)


def _judged(state: RunState, at_s: float, fact: f.RungJudged) -> RunState:
    del at_s

    def judged(i: Incident) -> Incident:
        if not i.tries:
            return i
        last = replace(i.tries[-1], outcome=fact.outcome, reason=fact.reason)
        return replace(i, tries=(*i.tries[:-1], last), restored_s=None if fact.outcome is Outcome.FAILED else i.restored_s)

    return _incident(state, fact.incident, judged)


def _moved(state: RunState, at_s: float, fact: f.IncidentMoved) -> RunState:
    def moved(i: Incident) -> Incident:
        assert fact.to in NEXT[i.state], f"incident {i.id} may not move from {i.state} to {fact.to}"
        closed = at_s if fact.to in (IncidentState.RECOVERED, IncidentState.EXHAUSTED) else None
        benign = fact.benign if fact.benign is not None else i.benign
        return replace(i, state=fact.to, verdict=fact.reason, closed_s=closed, benign=benign)

    return _incident(state, fact.incident, moved)


def _restored(state: RunState, at_s: float, fact: f.Restored) -> RunState:
    return _incident(state, fact.incident, lambda i: replace(i, restored_s=at_s))


def _lost(state: RunState, at_s: float, fact: f.StepsLost) -> RunState:
    del at_s
    return _incident(state, fact.incident, lambda i: replace(i, steps_lost=i.steps_lost + fact.steps))


def _plan(state: RunState, at_s: float, fact: f.PlanAdopted) -> RunState:
    del at_s
    state = replace(state, plan=PlanInProgress(fact.incident, fact.actions))
    started = next((a for a in fact.actions if isinstance(a, StartAttempt)), None)
    if fact.incident is None or started is None:
        return state

    def planned(i: Incident) -> Incident:
        if not i.tries:
            return i
        return replace(i, tries=(*i.tries[:-1], replace(i.tries[-1], attempt=started.attempt)))

    return _incident(state, fact.incident, planned)


def _dropped(state: RunState, at_s: float, fact: f.PlanDropped) -> RunState:
    del at_s, fact
    keys = {a.key for a in state.plan.actions} if state.plan else set()
    left: dict[str, Action] = {k: a for k, a in state.pending.items() if k not in keys}
    return replace(state, plan=None, pending=MappingProxyType(left))


def _stop(state: RunState, at_s: float, fact: f.StopAsked) -> RunState:
    del at_s
    return replace(state, stop_by=fact.by)


def _source(state: RunState, at_s: float, fact: f.SourceChanged) -> RunState:
    del at_s
    blind = _without(state.blind, fact.source) if fact.ok else _with(state.blind, fact.source, fact.reason)
    return replace(state, blind=blind)


def _noted(state: RunState, at_s: float, fact: f.Noted) -> RunState:
    del at_s, fact
    return state


def _held(state: RunState, at_s: float, fact: f.Held) -> RunState:
    del at_s
    return replace(state, held=fact.reason)


def _refilled(state: RunState, at_s: float, fact: f.BudgetRefilled) -> RunState:
    del at_s, fact
    return replace(state, interventions_s=())


def _gave_up(state: RunState, at_s: float, fact: f.GaveUp) -> RunState:
    del at_s
    return state if fact.then == "keep_training" else replace(state, giving_up=fact.then, giving_up_reason=fact.reason)


def _run_ended(state: RunState, at_s: float, fact: f.RunEnded) -> RunState:
    del at_s
    return replace(state, ended=fact.outcome, end_reason=fact.reason, plan=None)


_RULES: dict[type[Any], Callable[[RunState, float, Any], RunState]] = {
    f.RunCreated: _created,
    f.SupervisorTookOver: _took_over,
    f.ActionDecided: _decided,
    f.ActionConfirmed: _confirmed,
    f.ActionAbandoned: _abandoned,
    f.AttemptLaunched: _launched,
    f.ReceiptSeen: _receipt,
    f.FirstStep: _first_step,
    f.CheckpointCommitted: _checkpoint,
    f.CheckpointCondemned: _condemned,
    f.CheckpointsQuarantined: _quarantined,
    f.AttemptStopping: _stopping,
    f.AttemptEnded: _ended,
    f.FindingRecorded: _finding,
    f.IncidentOpened: _opened,
    f.RungTaken: _rung,
    f.RungJudged: _judged,
    f.IncidentMoved: _moved,
    f.Restored: _restored,
    f.StepsLost: _lost,
    f.PlanAdopted: _plan,
    f.PlanDropped: _dropped,
    f.StopAsked: _stop,
    f.SourceChanged: _source,
    f.Noted: _noted,
    f.Held: _held,
    f.BudgetRefilled: _refilled,
    f.GaveUp: _gave_up,
    f.RunEnded: _run_ended,
}
