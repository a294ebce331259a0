"""The ladder: a finding becomes an incident, an incident takes the next rung, a rung becomes a plan, or a person is called.

Every path ends in exactly one of: a plan adopted, patience (`wait`), an observation, or giving up. Each says why.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from sentinel.engine.draft import Draft
from sentinel.engine.giving_up import give_up
from sentinel.model import facts as f
from sentinel.model.actions import StartAttempt
from sentinel.model.attempts import Overrides, ResumePoint
from sentinel.model.findings import NUMERIC_KINDS, Finding, Kind
from sentinel.model.incidents import Band, Incident, IncidentState, Outcome, Remedy, SampleAnchor
from sentinel.plan.build import build_live_change, build_relaunch
from sentinel.plan.remedy import Treatment, build_treatment
from sentinel.policy.budget import judge_budget
from sentinel.policy.match import NoMatch, match_rule
from sentinel.policy.schema import Rung


def consider(draft: Draft, finding: Finding) -> None:
    """What a new finding means: nothing, more of an incident we have, or a new incident."""
    if finding.key in draft.state.findings:
        return None
    match = match_rule(draft.policy, finding.kind)
    if finding.severity == "info":
        return draft.dismiss(finding, "severity info: recorded, no incident")
    if isinstance(match, NoMatch):
        return draft.dismiss(finding, match.reason)
    if draft.state.plan is not None or draft.state.giving_up or draft.state.ended:
        return draft.dismiss(finding, "a recovery is already under way")
    owner = owner_of(draft, finding)
    if owner is not None:
        draft.record(f.FindingRecorded(finding, owner.id, f"belongs to incident {owner.id}"))
        return strike_again(draft, owner, finding)
    incident = _open(draft, finding, match.rule.alert, match.rule.playbook)
    if not incident.playbook:
        draft.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, f"rule {incident.alert} has no playbook"))
        return None
    return take_next_rung(draft, incident.id)


def owner_of(draft: Draft, finding: Finding) -> Incident | None:
    """The open incident this finding is a return or a symptom of; None if it is a cause of its own.

    Numeric: at or before the step where it broke. Past that, the same kind is at other samples, and new. Others: the same
    kind again before any new step was made.
    """
    for incident in reversed(draft.state.open_incidents):
        if finding.kind in NUMERIC_KINDS and incident.is_numeric:
            onset = finding.onset_step if finding.onset_step is not None else finding.detected_step
            if incident.state is IncidentState.OPEN or onset <= incident.break_step:
                return incident
        elif finding.kind == incident.kind and draft.newest_step <= incident.break_step:
            return incident
    return None


def strike_again(draft: Draft, incident: Incident, finding: Finding) -> None:
    """A finding of an incident that is being treated: the remedy failed. Patience ends at once when values turn non-finite."""
    if incident.state is IncidentState.PROBATION:
        return fail_rung(draft, incident.id, f"the same again: {finding.reason}")
    turned = finding.kind is Kind.NON_FINITE and incident.kind is not Kind.NON_FINITE
    if incident.is_numeric and not turned:
        return draft.note(f"incident {incident.id}", f"still going on: {finding.reason}")
    return fail_rung(draft, incident.id, f"it got worse: {finding.reason}")


def fail_rung(draft: Draft, incident_id: int, reason: str) -> None:
    """The rung did not help: judge it, and take the next, from the original incident."""
    incident = draft.state.incident(incident_id)
    if incident.tries and incident.tries[-1].outcome is Outcome.PENDING:
        draft.record(f.RungJudged(incident_id, Outcome.FAILED, reason))
    if incident.state is IncidentState.PROBATION:
        draft.record(f.IncidentMoved(incident_id, IncidentState.OPEN, reason))
    take_next_rung(draft, incident_id)


def take_next_rung(draft: Draft, incident_id: int) -> None:
    incident = draft.state.incident(incident_id)
    rungs = draft.policy.spec.playbooks[incident.playbook]
    index = incident.rung + 1
    if not incident.retryable:
        return give_up(draft, incident_id, f"a relaunch cannot help: {incident.reason}")
    if index >= len(rungs):
        return give_up(draft, incident_id, "every rung of the playbook was tried")
    rung = rungs[index]
    if rung.page is not None:
        return give_up(draft, incident_id, f"rung {index + 1} of playbook {incident.playbook} calls a person", index)
    if rung.wait is not None:
        reason = f"patience: wait up to {rung.wait.for_steps} steps for it to heal"
        return draft.record(f.RungTaken(incident_id, Remedy(index, rung.keys, reason), False, draft.newest_step))
    if rung.hold:
        return give_up(draft, incident_id, "the playbook holds the run for a person", index, then="hold")
    return _act(draft, incident, rungs, index)


def _act(draft: Draft, incident: Incident, rungs: tuple[Rung, ...], index: int) -> None:
    state = draft.state
    treatment = build_treatment(
        rungs, index, incident, state.checkpoints, state.open_incidents, state.overrides, draft.is_alive
    )
    if draft.observes_only:
        draft.record(f.RungTaken(incident.id, treatment.remedy, False, draft.newest_step))
        return draft.record(f.RungJudged(incident.id, Outcome.OBSERVED, f"observe only, nothing done: {treatment.remedy.reason}"))
    _refill(draft)
    state = draft.state
    budget = draft.policy.spec.budget
    stuck = state.without_progress if treatment.relaunch else 0
    verdict = judge_budget(budget, draft.now_s, state.interventions_s, state.restarts_s if treatment.relaunch else (), stuck)
    if not verdict.allowed:
        return give_up(draft, incident.id, _spent(draft, verdict.reason))
    draft.record(f.RungTaken(incident.id, treatment.remedy, True, draft.newest_step))
    if treatment.relaunch:
        return relaunch(draft, incident.id, treatment.resume, treatment.overrides, verdict.wait_s, treatment.remedy.reason)
    return _change_live(draft, incident.id, treatment)


def _spent(draft: Draft, reason: str) -> str:
    attempt = draft.attempt
    if attempt is not None and attempt.first_step is None and draft.state.without_progress > 1:
        return f"broken job: {draft.state.without_progress} launches in a row died before their first step (budget: {reason})"
    return f"budget: {reason}"


def _refill(draft: Draft) -> None:
    state, after = draft.state, draft.policy.spec.budget.refill_after_progress_steps
    if state.interventions_s and draft.newest_step - state.intervention_step >= after:
        draft.record(f.BudgetRefilled(f"{after} steps of progress since the last intervention at step {state.intervention_step}"))


def relaunch(
    draft: Draft, incident_id: int | None, resume: ResumePoint | None, overrides: Overrides, wait_s: float, reason: str
) -> None:
    """Adopt the plan that ends in a new attempt, and decide its first action."""
    attempt, number = draft.attempt, draft.state.next_attempt
    named = replace(overrides, id=f"ov-{number}")
    actions = build_relaunch(
        incident=incident_id,
        old_attempt=attempt.attempt if attempt else None,
        is_alive=draft.is_alive,
        new_attempt=number,
        resume=resume,
        overrides=named,
        not_before_s=draft.now_s + wait_s if wait_s else 0.0,
        reason=reason,
    )
    if draft.is_alive and attempt is not None:
        draft.record(f.AttemptStopping(attempt.attempt, reason))
    draft.record(f.PlanAdopted(incident_id, actions))
    proceed(draft)


def proceed(draft: Draft) -> None:
    """Decide the plan's next action, if a plan is under way."""
    plan = draft.state.plan
    if plan is None:
        return
    action = plan.actions[plan.next]
    if isinstance(action, StartAttempt):
        _count_lost(draft, plan.incident, action)
        incident = draft.state.incident(plan.incident) if plan.incident is not None else None
        draft.launch(action, incident.tries[-1].remedy.reason if incident and incident.tries else "launch")
    else:
        draft.decide(action)


def _count_lost(draft: Draft, incident: int | None, action: StartAttempt) -> None:
    lost = draft.newest_step - (action.resume.step if action.resume else 0)
    if incident is not None and lost > 0:
        draft.record(f.StepsLost(incident, lost))


def _change_live(draft: Draft, incident_id: int, treatment: Treatment) -> None:
    attempt = draft.attempt
    assert attempt is not None
    number = sum(len(i.tries) for i in draft.state.incidents)
    named = replace(treatment.overrides, id=f"ov-{attempt.attempt}.{number}")
    draft.record(f.PlanAdopted(incident_id, build_live_change(attempt.attempt, named)))
    proceed(draft)


def _open(draft: Draft, finding: Finding, alert: str, playbook: str | None) -> Incident:
    band: Band | None = None
    anchor: SampleAnchor | None = None
    if finding.kind in NUMERIC_KINDS:
        band = _band_before(draft, finding)
        anchor = _anchor(draft, finding)
    incident = Incident(
        id=draft.state.next_incident,
        kind=finding.kind,
        severity=finding.severity,
        alert=alert,
        playbook=playbook or "",
        attempt=finding.attempt,
        onset_step=finding.onset_step,
        detected_step=finding.detected_step,
        break_step=max(finding.detected_step, draft.newest_step),
        visible_s=finding.visible_s,
        detected_s=draft.now_s,
        reason=finding.reason,
        band=band,
        samples=anchor,
        blamed_rank=finding.blamed_rank,
        retryable=finding.retryable,
    )
    draft.record(f.FindingRecorded(finding, incident.id, f"rule {alert}"))
    draft.record(f.IncidentOpened(incident))
    return incident


def _band_before(draft: Draft, finding: Finding) -> Band | None:
    """Where the judged metric stood: just before its own breach, else (another metric broke) just before the onset."""
    metric = draft.policy.spec.probation.recovered_when.metric
    level = draft.senses.pre_breach(metric)
    if level is None:
        onset = finding.onset_step if finding.onset_step is not None else finding.detected_step
        level = draft.senses.level(metric, onset - 1 - draft.policy.spec.detectors.spike.window_steps, onset - 1)
    return Band(metric, level.median, level.mad, level.count) if level is not None and isfinite(level.median) else None


def _anchor(draft: Draft, finding: Finding) -> SampleAnchor | None:
    per_step = draft.senses.samples_per_step
    onset = draft.senses.samples_of(finding.onset_step) if finding.onset_step is not None else None
    detected = draft.senses.samples_of(finding.detected_step)
    if not onset or not detected or not per_step:
        return None
    return SampleAnchor(onset[0].start, detected[-1].end, per_step)
