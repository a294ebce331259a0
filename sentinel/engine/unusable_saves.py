"""Checkpoints come as they should, and cannot be used: each that is read whole is damaged. Training goes on, and what it learns
is not saved: a person is called, as where none comes. One damaged checkpoint is passed over at a resume, and calls nobody."""

from __future__ import annotations

from sentinel.detectors.stale_checkpoint import DAMAGED
from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.model import facts as f
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.state import Checkpoint, RunState
from sentinel.plan.retention import is_sound
from sentinel.policy.match import Match, match_rule

DAMAGED_IN_A_ROW = 2  # the newest ones that were read: one may be a bit that rotted, two are what is being written
FOLLOWS = "training goes on; a crash goes back to the newest checkpoint that holds"


def on_whole_read(decision: Decision) -> None:
    """After what reading found of a checkpoint was put on record."""
    read = _read(decision.state)
    if read and is_sound(read[-1]):
        for incident in decision.state.open_pages:
            if incident.kind is Kind.STALE_CHECKPOINT and incident.metric == DAMAGED:
                resolve(decision, incident.id, f"the checkpoint of step {read[-1].step} was read whole and holds")
        return
    newest = read[-DAMAGED_IN_A_ROW:]
    if len(newest) < DAMAGED_IN_A_ROW or any(is_sound(found) for found in newest):
        return
    if not any(i.kind is Kind.STALE_CHECKPOINT and i.metric == DAMAGED for i in decision.state.open_pages):
        _call(decision, newest, [found for found in read if is_sound(found)])


def _read(state: RunState) -> list[Checkpoint]:
    """What is known to hold or to be damaged by reading it, by step."""
    found = [c for c in state.checkpoints if is_sound(c) or (c.damaged and c.evidence in ("bytes", "numbers", "norm"))]
    return sorted(found, key=lambda c: c.step)


def _call(decision: Decision, damaged: list[Checkpoint], sound: list[Checkpoint]) -> None:
    steps = " and ".join(str(found.step) for found in damaged)
    back = f"that of step {sound[-1].step}" if sound else "none"
    reason = (
        f"the newest {len(damaged)} checkpoints that were read whole, of steps {steps}, are damaged: {damaged[-1].condemned}; "
        f"the newest that is known to hold: {back}"
    )
    attempt = decision.attempt.attempt if decision.attempt is not None else 0
    last_step = sound[-1].step if sound else None
    finding = Finding(
        Kind.STALE_CHECKPOINT, "critical", attempt, last_step, decision.newest_step, decision.now_s, reason, metric=DAMAGED,
        outside=True,
    )  # fmt: skip
    match = match_rule(decision.policy, Kind.STALE_CHECKPOINT)
    alert = match.rule.alert if isinstance(match, Match) else "CheckpointsDamaged"
    incident = open_incident(decision, finding, alert, None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "what is saved cannot be used, and a person is called"))
    page(decision, incident.id, "critical", reason, FOLLOWS)
