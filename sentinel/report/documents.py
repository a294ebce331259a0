"""The JSON documents of `sentinel status --json` and `sentinel incidents --json`. Other programs build on these keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sentinel.client.settings import settings_to_json
from sentinel.engine.goodput import account
from sentinel.model.actions import VerifyCheckpoint
from sentinel.model.incidents import Incident, Try
from sentinel.model.records import Attribution
from sentinel.model.state import RunState
from sentinel.plan.gpus import gpus_of
from sentinel.plan.save_interval import advise_interval
from sentinel.policy.schema import Policy
from sentinel.report.cost import cost_document, forecast_document, incident_cost
from sentinel.report.environment import environment_document
from sentinel.report.losses import IncidentLoss
from sentinel.report.machine_warnings import machine_warnings
from sentinel.report.needs import needs_document, standing_documents
from sentinel.report.needs_text import nothing_asked
from sentinel.report.pages import page_document, pages_document
from sentinel.report.snapshot import RunSnapshot, is_idle, still_since_s
from sentinel.run_files.detector_standings import OLD_AFTER_S, DetectorStandings
from sentinel.run_files.stall import run_word, stall_of
from sentinel.terminal.words import action_words


def status_document(snapshot: RunSnapshot, policy: Policy | None, warning: str) -> dict[str, Any]:
    """The status of a run, and what whoever looks at it needs first. `state` in it is the journal's word: a run whose supervisor
    is gone is still training while its attempt lives. A run that trains and whose next step is overdue is `stalled`. `policy`:
    None where it cannot be read."""
    state, now_s, senses = snapshot.state, snapshot.now_s, snapshot.senses
    attempt = state.attempt
    stall = stall_of(state, now_s, senses)
    still_s = still_since_s(snapshot, stall)
    ledger = account(state, now_s, still_s)
    overdue = stall.words(now_s) if stall else ""
    open_incidents = state.open_incidents
    current = open_incidents[-1] if open_incidents else None
    known = (attempt.last_step or attempt.resumed_step) if attempt else None
    step = snapshot.step if snapshot.step is not None else known
    cost = cost_document(state, now_s, still_s, senses.gpus_in_use, snapshot.losses)
    is_still = stall is not None or is_idle(snapshot)
    document = {
        "run": state.run_id,
        "state": run_word(state, stall),
        "reason": state.end_reason or state.held or (f"by {state.paused}" if state.paused else state.waits_for or overdue),
        "attempt": attempt.attempt if attempt else None,
        "step": step,
        "total_steps": snapshot.total_steps,
        "last_step_s": senses.step_times.last_step_s if attempt and senses.attempt == attempt.attempt else None,
        "stalled_s": round(now_s - stall.since_s, 1) if stall else None,
        "ranks": [asdict(seen) for seen in snapshot.ranks] if stall else [],
        "goodput": round(ledger.goodput_ratio, 4),
        "ledger_s": {name: round(value, 3) for name, value in ledger.seconds.items()},
        "wall_s": round(ledger.total_s, 3),
        "open_incident": incident_document(current) if current else None,
        "incidents": len(state.incidents),
        "newest_incident": _newest_document(state),
        "policy": state.policy_name,
        "policy_digest": state.policy_digest,
        "policy_applied": applied_document(state),
        "observe_only": state.observe_only,
        "blind": dict(state.blind),
        "missing_steps": [list(hole) for hole in attempt.holes] if attempt else [],
        "supervisor": snapshot.supervisor,
        "standbys": [asdict(one) for one in snapshot.standbys],
        "attempt_alive": snapshot.attempt_alive,
        "warning": warning,
        "deadline": _deadline_document(state, now_s),
        "under_way": under_way_document(state),
        "excluded_nodes": [{"node": one.node, "incident": one.incident} for one in state.excluded],
        "environment": environment_document(state),
        "pages": pages_document(state, now_s),
        "detectors": _detectors_document(senses, now_s),
        "disks": _disks_document(senses, now_s),
        "save_interval": _interval_document(state),
        "cost": cost,
        "forecast": forecast_document(state, now_s, step, snapshot.total_steps, cost, is_stalled=is_still),
        "needs": needs_document(snapshot, policy),
        "standing": standing_documents(snapshot, policy),
        "machine_warnings": machine_warnings(state, now_s, senses),
    }
    return document | {"nothing_asked": nothing_asked(document)}


def _newest_document(state: RunState) -> dict[str, Any] | None:
    """What broke last, for who finds that everything goes well again; null where nothing has."""
    if not state.incidents:
        return None
    newest = state.incidents[-1]
    return {"id": newest.id, "kind": str(newest.kind), "stands": newest.stands}


def applied_document(state: RunState) -> dict[str, Any] | None:
    """None where the policy in force is the one that the supervisor was started with. `at`: Unix seconds."""
    applied = state.applied
    if applied is None:
        return None
    return {"by": applied.by, "at": applied.at_s, "note": applied.note, "path": applied.path, "before": applied.before}


def _interval_document(state: RunState) -> dict[str, Any]:
    """How often the run should save. `unknown`: why nothing is advised, empty where something is."""
    advice = advise_interval(state.attempts)
    return {"unknown": advice} if isinstance(advice, str) else {"unknown": "", **asdict(advice)}


def under_way_document(state: RunState) -> dict[str, Any] | None:
    """The action of a plan that is being carried out: which of how many, and of a verification how long it is expected to take,
    where a rate is known. None where no plan is under way."""
    plan = state.plan
    if plan is None or state.ended or plan.next >= len(plan.actions):
        return None
    action = plan.actions[plan.next]
    expected_s = action.expected_s if isinstance(action, VerifyCheckpoint) else None
    return {
        "words": action_words(action),
        "number": plan.next + 1,
        "of": len(plan.actions),
        "expected_s": None if expected_s is None else round(expected_s, 1),
    }


def under_way_words(found: Mapping[str, Any]) -> str:
    """That document in the words of the terminal."""
    return f"{found['words']} ({found['number']} of {found['of']})"


def _deadline_document(state: RunState, now_s: float) -> dict[str, Any] | None:
    """`in_s`: how long the machine is still the supervisor's, negative once that time has passed; None where no end is known."""
    if state.deadline_s is None or state.ended:
        return None
    return {"in_s": round(state.deadline_s - now_s, 3), "by": state.deadline_by}


def _detectors_document(standings: DetectorStandings, now_s: float) -> dict[str, Any]:
    """As of `age_s` ago, about `attempt` at `step`; `missing`: why nothing is known, and all of them are null or empty."""
    return {
        "age_s": round(max(0.0, now_s - standings.time_s), 3) if standings.time_s is not None else None,
        "attempt": standings.attempt,
        "step": standings.step,
        "missing": standings.missing,
        "unwritten_remarks": standings.unwritten_remarks,
        "verdicts": [{"kind": kind, "verdict": verdict, "reason": reason} for kind, verdict, reason in standings.verdicts],
    }


def _disks_document(standings: DetectorStandings, now_s: float) -> list[dict[str, Any]]:
    """The room on the filesystems of the run; empty where nobody has looked lately. `free_inodes` null: it counts none."""
    if standings.time_s is None or now_s - standings.time_s > OLD_AFTER_S:
        return []
    return [
        {
            "place": disk.place,
            "mount": disk.mount,
            "free_bytes": disk.free_bytes,
            "total_bytes": disk.total_bytes,
            "free_inodes": disk.free_inodes,
        }
        for disk in standings.disks
    ]


def incident_documents(state: RunState, losses: Sequence[IncidentLoss], gpus_in_use: int | None) -> list[dict[str, Any]]:
    """Every incident, oldest first, with what it cost."""
    gpus = gpus_of(state, gpus_in_use)
    cost = {loss.incident: incident_cost(loss, gpus, state.price) for loss in losses}
    return [incident_document(incident) | {"cost": cost.get(incident.id)} for incident in state.incidents]


def incident_document(incident: Incident) -> dict[str, Any]:
    """Both times count from the moment the fault was first visible in what the trainer wrote. `steps_lost`: as rows showed them,
    null where they showed none and there may be some; `steps_lost_at_most` null: nobody knows how many."""
    restored, found = incident.restored_s, incident.diagnosis
    return {
        "id": incident.id,
        "kind": str(incident.kind),
        "severity": incident.severity,
        "state": str(incident.state),
        "stands": incident.stands,
        "onset_step": incident.onset_step,
        "detected_step": incident.detected_step,
        "break_step": incident.break_step,
        "time_to_detect_s": round(max(0.0, incident.detected_s - incident.visible_s), 3),
        "time_to_recover_s": round(max(0.0, restored - incident.visible_s), 3) if restored is not None else None,
        "steps_lost": incident.steps_lost if incident.steps_lost or not incident.may_have_lost_steps else None,
        "steps_lost_at_most": incident.steps_lost_at_most,
        "reason": incident.reason,
        "verdict": incident.verdict,
        "alert": incident.alert,
        "playbook": incident.playbook,
        "begins_anew": incident.begins_anew,
        "benign": incident.benign,
        "blamed_rank": incident.blamed_rank,
        "blamed_node": incident.blamed_node,
        "awaits_approval": incident.approval.rung if incident.awaits_approval and incident.approval else None,
        "acknowledged_by": incident.acknowledged_by,
        "diagnosis": {"cause": found.cause, "reason": found.reason, "ranks": list(found.ranks)} if found else None,
        "attribution": _attribution_document(incident.attribution) if incident.attribution else None,
        "put_back": list(incident.put_back),
        "remedies": [_try_document(t) for t in incident.tries],
        "pages": list(incident.pages),
        "page": page_document(incident),
    }


def _attribution_document(found: Attribution) -> dict[str, Any]:
    """`attempt`: whose samples.jsonl holds the numbers."""
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "attempt": found.attempt,
        "suspect": [found.suspect.start, found.suspect.end] if found.suspect else None,
        "ranges": [[r.start, r.end] for r in found.ranges],
        "guilty": found.guilty,
        "inspected": found.inspected,
    }


def _try_document(tried: Try) -> dict[str, Any]:
    remedy = tried.remedy
    skip = [[r.start, r.end] for r in remedy.skip]
    return {
        "rung": remedy.rung,
        "words": list(remedy.words),
        "rollback_to_step": remedy.rollback_to_step,
        "skip": skip,
        **settings_to_json(remedy, skip),
        "attempt": tried.attempt,
        "outcome": str(tried.outcome),
        "reason": tried.reason or remedy.reason,
        "chosen": remedy.reason,
        "expected": remedy.effect,
        "proofs": [{"key": proof.key, "grade": proof.grade, "words": proof.words} for proof in tried.proofs],
        "verdict": tried.reason,
    }
