"""What must hold when a simulated run is over: every incident closed, all steps trained once, repaired bad data left out."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from sentinel.engine.goodput import account
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.state import RunState
from sentinel.sim.data_order import Span, overlap
from sentinel.sim.faults import parse_fault
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.invariants import Inspector
from sentinel.sim.trainer import SimTrainer

Trail = list[tuple[int, tuple[Span, ...]]]


def judge_ending(
    inspector: Inspector, must_finish: bool, steps: int, state: RunState, trainers: Mapping[int, SimTrainer]
) -> None:
    if must_finish and state.ended != "finished":
        raise InvariantBroken("a repairable run finishes", f"it {state.ended or state.held or state.label}: {state.end_reason}")
    if not state.ended:
        return
    inspector.pages.judge(inf, state)  # the supervisor has left for good
    ledger = account(state, inspector.world.now_s)
    if min(ledger.seconds.values(), default=0.0) < 0.0 or abs(sum(ledger.seconds.values()) - ledger.total_s) > 1e-3:
        raise InvariantBroken("every second is accounted for", f"{dict(ledger.seconds)} of {ledger.total_s:.3f} s")
    for incident in state.incidents:
        if incident.is_closed or state.ended in ("stopped", "suspended") or inspector.observe_only:
            continue
        if state.ended == "finished" or not inspector.pages.is_called_for(incident.id, incident.detected_s):
            raise InvariantBroken("every incident ends", f"incident {incident.id} is {incident.state}, the run {state.ended}")
    if state.ended != "finished":
        return
    last = max(trainers)
    trail = surviving(trainers, last)
    if [step for step, _ in trail] != list(range(1, steps + 1)):
        raise InvariantBroken("all steps are trained", f"{len(trail)} of {steps} surviving steps")
    if state.overrides.data_seed is not None:
        return  # in a new order the poison lies anywhere, and an index of the trail may be another sequence
    for incident in state.incidents:
        if incident.state is IncidentState.RECOVERED:
            _judge_skipped(incident, inspector.causes.get(incident.id, set()), trail)


def surviving(trainers: Mapping[int, SimTrainer], attempt: int) -> Trail:
    """The updates that the weights at the end of this attempt went through, oldest first."""
    trail: Trail = []
    trainer: SimTrainer | None = trainers.get(attempt)
    bound: int | None = None
    while trainer is not None:
        trail = [entry for entry in trainer.trail if bound is None or entry[0] <= bound] + trail
        if trainer.resumed is None:
            break
        bound, trainer = trainer.resumed.step, trainers.get(trainer.resumed.attempt)
    return trail


def _judge_skipped(incident: Incident, causes: set[str], trail: Trail) -> None:
    """What a successful skip was about is not in the lineage that survived. One that was only observed skipped nothing."""
    last = incident.last_try
    if last is None or last.outcome is Outcome.OBSERVED or not last.remedy.skip or incident.kind is not Kind.SPIKE:
        return
    spans = [span for _, taken in trail for span in taken]
    for text in sorted(causes):
        fault = parse_fault(text)
        if fault.kind != "bad_data":
            continue
        trained = overlap(spans, int(fault.at), fault.behind)
        if trained > 0 and trained > (fault.behind - fault.at) / 10:
            raise InvariantBroken("skips cover repaired bad data", f"{trained} samples of {text} survive incident {incident.id}")
