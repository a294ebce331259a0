"""The ladder: a finding becomes an incident, an incident takes the next rung, a rung becomes a plan, or a person is called.

Every path ends in exactly one of: a plan adopted, patience (`wait`), an observation, or giving up. Each says why."""

from __future__ import annotations

from dataclasses import replace

from sentinel.detectors.registry import FINDS
from sentinel.engine import approval
from sentinel.engine.broken_job import deaths_before_a_step
from sentinel.engine.causes import join, link_of, record_meanwhile
from sentinel.engine.condemning import pass_over_failing
from sentinel.engine.decision import Decision
from sentinel.engine.diagnosis import ask_for_comparison, is_diagnosing
from sentinel.engine.exclusion import blamed_node, cures, exclude, is_left_out
from sentinel.engine.giving_up import give_up, is_last_resort
from sentinel.engine.lapsing import fail_lapse, spare_steps
from sentinel.engine.live_settings import write_live
from sentinel.engine.log_matches import exclude_by_log
from sentinel.engine.node_checks import note_blame
from sentinel.engine.opening import open_incident, reported_before
from sentinel.engine.paging import page
from sentinel.engine.passing_over import pass_over, reason_to_pass_over
from sentinel.engine.preemption import may_wait, tell_of_many, was_preempted
from sentinel.engine.recurrence import healed_before
from sentinel.engine.relaunching import drop_live_plan, relaunch
from sentinel.engine.retention import lost_to_retention
from sentinel.engine.unobserved import refuse_restart
from sentinel.model import facts as f
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.plan.effect import predict_effect
from sentinel.plan.overrides import draw_data_seed
from sentinel.plan.playbook_change import was_tried
from sentinel.plan.remedy import Treatment, build_treatment
from sentinel.plan.structural import judge_structural
from sentinel.policy.budget import draw_spread, judge_budget
from sentinel.policy.match import NoMatch, match_rule
from sentinel.policy.schema import Rung


def consider(decision: Decision, finding: Finding) -> None:
    """What a new finding means: nothing, more of an incident we have, or a new incident."""
    if finding.key in decision.state.findings:
        return None
    match = match_rule(decision.policy, finding.kind, finding.alert)
    if finding.severity == "info":
        return decision.dismiss(finding, "severity info: recorded, no incident")
    if isinstance(match, NoMatch):
        return decision.dismiss(finding, match.reason)
    if is_left_out(decision, finding):
        return decision.dismiss(finding, f"node {finding.blamed_node} is left out of this attempt")
    earlier = reported_before(decision, finding)
    if earlier is not None:
        return decision.dismiss(finding, f"incident {earlier.id} told of it before this supervisor came")
    if not FINDS[finding.kind].only_tells and _acts(decision, match.rule.playbook):
        drop_live_plan(decision, finding.reason)
    link = link_of(decision, finding)
    if decision.state.plan is not None or decision.state.giving_up or decision.state.ended:
        return record_meanwhile(decision, finding, link)
    owner = owner_of(decision, finding)
    healed = healed_before(decision, finding) if owner is not None and owner.state is IncidentState.PROBATION else None
    if healed is not None:
        return decision.dismiss(finding, f"the samples of incident {healed.id} once more, which healed by itself")
    if owner is not None:
        decision.record(f.FindingRecorded(finding, owner.id, f"belongs to incident {owner.id}"))
        note_blame(decision, owner.id, finding.attempt, blamed_node(decision, finding))
        exclude_by_log(decision, owner.id, finding)
        return on_recurrence(decision, owner, finding)
    if link and link.joins:
        worse = join(decision, finding, link)
        return fail_rung(decision, link.incident.id, worse) if worse else None
    incident = open_incident(decision, finding, match.rule.alert, match.rule.playbook, link.reason if link else "")
    note_blame(decision, incident.id, finding.attempt, incident.blamed_node)
    fail_lapse(decision, incident)
    exclude_by_log(decision, incident.id, finding)
    if not incident.playbook:
        decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, f"rule {incident.alert} has no playbook"))
        return None
    return take_next_rung(decision, incident.id)


def _acts(decision: Decision, playbook: str | None) -> bool:
    """Does any rung change the training? A finding that only informs interrupts no repair."""
    rungs = decision.policy.spec.playbooks.get(playbook or "", ())
    return any(rung.parts != ("page",) or rung.then != "keep_training" for rung in rungs)


def owner_of(decision: Decision, finding: Finding) -> Incident | None:
    """The open incident this finding is a return or a symptom of; None if it is a cause of its own.

    Numeric: at or before the step where it broke, or before any new step was made (exit 5 dates its onset to the step that
    could not be made). Past that, the same kind is at other samples, and new. Others: the same kind before any new step.
    """
    for incident in reversed(decision.state.open_incidents):
        if finding.kind.is_numeric and incident.is_numeric:
            onset = finding.onset_step if finding.onset_step is not None else finding.detected_step
            if incident.state is IncidentState.OPEN or min(onset, decision.newest_step) <= incident.break_step:
                return incident
        elif finding.kind == incident.kind and decision.newest_step <= incident.break_step:
            return incident
    return None


def on_recurrence(decision: Decision, incident: Incident, finding: Finding) -> None:
    """A finding of an incident that is being treated: the remedy failed. Patience ends at once when values turn non-finite,
    and when the attempt has died: no step will come to heal in."""
    if is_diagnosing(incident):
        return ask_for_comparison(decision, incident, failed_again=True)
    if incident.state is IncidentState.PROBATION:
        return fail_rung(decision, incident.id, f"the same again: {finding.reason}", finding.onset_step)
    turned = finding.kind is Kind.NON_FINITE and incident.kind is not Kind.NON_FINITE
    patient = decision.observes_only or (incident.is_waiting and decision.is_alive)
    if incident.is_numeric and patient and not turned:
        return decision.note(f.about_incident(incident.id), f"still going on: {finding.reason}")
    return fail_rung(decision, incident.id, f"it got worse: {finding.reason}")


def fail_rung(decision: Decision, incident_id: int, reason: str, broke_again_step: int | None = None) -> None:
    """The rung did not help: judge it, and take the next, from the original incident. One that failed for the checkpoint it
    resumed from is taken again, from the next older one, as where a checkpoint turns out to be damaged. `broke_again_step`: where
    it broke again."""
    incident = decision.state.incident(incident_id)
    if incident.tries and incident.tries[-1].outcome is Outcome.PENDING:
        decision.record(f.RungJudged(incident_id, Outcome.FAILED, reason, broke_again_step))
    if incident.state is IncidentState.PROBATION:
        decision.record(f.IncidentMoved(incident_id, IncidentState.OPEN, reason))
    if incident.awaits_approval and incident.approval is not None:
        return take_next_rung(decision, incident_id, incident.approval.rung)  # no other rung before a person has answered
    rungs = decision.rungs_of(incident)
    resumes = 0 <= incident.rung < len(rungs) and rungs[incident.rung].does("relaunches")
    if pass_over_failing(decision) and resumes:
        return take_next_rung(decision, incident_id, incident.rung)
    why_not = judge_structural(decision.state.incident(incident_id), rungs, incident.rung + 1)
    return give_up(decision, incident_id, why_not) if why_not else take_next_rung(decision, incident_id)


def take_next_rung(decision: Decision, incident_id: int, index: int | None = None) -> None:
    """Ends in a plan, in patience, in an observation, or with a person; every rung before it has its reason on record. `index`:
    this rung again, which was only observed."""
    incident = decision.state.incident(incident_id)
    rungs = decision.rungs_of(incident)
    index = incident.rung + 1 if index is None else index
    if not rungs and decision.is_alive:
        return _leave(decision, incident)
    if not incident.retryable and not cures(decision, incident, rungs, index):
        return give_up(decision, incident_id, f"a relaunch cannot help: {incident.reason}")
    if index >= len(rungs):
        return give_up(decision, incident_id, "every rung of the playbook was tried" if rungs else _no_playbook(decision))
    rung = rungs[index]
    if rung.hold:
        return give_up(decision, incident_id, "the playbook holds the run for a person", index, then="hold")
    if is_last_resort(rungs, index):
        return give_up(decision, incident_id, f"rung {index + 1} of playbook {incident.playbook} calls a person", index)
    if was_tried(incident, rungs, index):
        pass_over(decision, incident, rung, index, "it has failed already, under the policy before")
        return take_next_rung(decision, incident_id)
    if rung.wait is not None:
        reason = f"patience: wait up to {rung.wait.for_steps} steps for it to heal"
        decision.take(incident_id, Remedy(index, rung.keys, reason))
        if incident.is_numeric and decision.is_alive:
            return None
        return fail_rung(decision, incident_id, "nothing to wait for: no step can heal this")
    if rung.parts == ("page",):
        return _tell(decision, incident_id, rung, index)
    return take_rung(decision, incident_id, index)


def _no_playbook(decision: Decision) -> str:
    return f"no rule of policy {decision.policy.metadata.name} has a playbook for it"


def _leave(decision: Decision, incident: Incident) -> None:
    """The policy in force has no rule with a playbook for it: as a finding under such a rule, it is recorded, and training goes
    on. A playbook that was taken away must not end a run that trains."""
    if incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
        decision.record(f.RungJudged(incident.id, Outcome.PASSED_OVER, "the policy in force does not have this rung"))
    reason = f"{_no_playbook(decision)}: nothing more is tried, and training goes on"
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, reason))


def _tell(decision: Decision, incident_id: int, rung: Rung, index: int) -> None:
    """A page without `then` tells a person and goes on."""
    reason = f"rung {index + 1} tells a person, and the playbook goes on"
    decision.take(incident_id, Remedy(index, rung.keys, reason))
    decision.record(f.RungJudged(incident_id, Outcome.PAGED, reason))
    severity = rung.page.severity if rung.page else "critical"
    page(decision, incident_id, severity, reason, "sentinel takes the next rung by itself")
    take_next_rung(decision, incident_id)


def take_rung(decision: Decision, incident_id: int, index: int) -> None:
    """Carry out a rung that acts: within the budget, and with a person's approval where the policy asks for it."""
    pass_over_failing(decision)
    state, incident = decision.state, decision.state.incident(incident_id)
    rungs = decision.rungs_of(incident)
    treatment = _treatment(decision, incident, index, decision.is_alive)
    if why_not := reason_to_pass_over(decision, incident, rungs[index]):
        pass_over(decision, incident, rungs[index], index, why_not)
        return take_next_rung(decision, incident_id)
    if treatment.relaunch and treatment.resume is None and (lost := lost_to_retention(decision, incident, index)):
        return give_up(decision, incident_id, lost)
    if treatment.relaunch and treatment.resume is None and (unheard := refuse_restart(decision)):
        return give_up(decision, incident_id, unheard)
    if decision.observes_only:
        why = "observe only" if decision.is_observed_run else f"paused by {state.paused}"
        decision.take(incident.id, treatment.remedy)
        return decision.record(f.RungJudged(incident.id, Outcome.OBSERVED, f"{why}, nothing done: {treatment.remedy.reason}"))
    if not approval.is_granted(incident, rungs[index], index):
        return approval.ask(decision, incident, rungs[index], index, treatment.remedy.reason)
    _refill(decision)
    state = decision.state
    budget = decision.policy.spec.budget
    stuck = state.without_progress if treatment.relaunch else 0
    restarts_s = state.restarts_s if treatment.relaunch else ()
    interventions_s = () if was_preempted(incident) else state.interventions_s
    verdict = judge_budget(
        budget,
        decision.now_s,
        interventions_s=interventions_s,
        restarts_s=restarts_s,
        without_progress=stuck,
        same_cause_s=_of_this_cause(decision, incident, interventions_s),
        spread=draw_spread(state.run_id, state.next_attempt),
        pauses=was_preempted(incident),
    )
    if not (verdict.allowed or may_wait(incident, verdict)):
        return give_up(decision, incident.id, _spent(decision, verdict.reason))
    decision.take(incident.id, treatment.remedy, intervention=not was_preempted(incident))
    tell_of_many(decision, incident, verdict)
    if (notice := rungs[index].page) is not None:
        follows = "sentinel does this by itself, and watches whether it works"
        page(decision, incident.id, notice.severity, treatment.remedy.reason, follows)
    exclude(decision, incident, rungs[index])
    if treatment.relaunch:
        return _launch(decision, incident.id, treatment, verdict.wait_s)
    number = sum(len(i.tries) for i in decision.state.incidents)
    writes = bool(rungs[index].settings)
    return write_live(decision, incident.id, str(number), treatment.overrides, more=treatment.actions, writes=writes)


def _launch(decision: Decision, incident_id: int, built: Treatment, wait_s: float) -> None:
    reason, also = built.remedy.reason, built.actions
    relaunch(decision, incident_id, built.resume, built.overrides, wait_s, reason, inspection=built.inspection, more=also)


def _treatment(decision: Decision, incident: Incident, index: int, is_alive: bool) -> Treatment:
    seed = draw_data_seed(decision.state.run_id, incident.id, decision.state.next_attempt)
    built = treatment_now(decision, incident, index, is_alive, seed)
    probation = decision.policy.spec.probation
    steps, ratio = probation.steps, probation.recovered_when.ratio
    may_find = decision.state.may_lack_checkpoints
    effect = predict_effect(built.remedy, incident, decision.newest_step, steps, ratio, may_find, is_alive)
    return replace(built, remedy=replace(built.remedy, effect=effect))


def treatment_now(decision: Decision, incident: Incident, index: int, is_alive: bool, new_seed: int | None) -> Treatment:
    """What rung `index` comes to with the checkpoints, the incidents and the settings of now."""
    state = decision.state
    return build_treatment(
        decision.rungs_of(incident),
        index,
        incident,
        checkpoints=state.checkpoints,
        open_incidents=state.open_incidents,
        in_force=state.overrides,
        is_alive=is_alive,
        new_seed=new_seed,
        spare=spare_steps(decision),
        lapses=state.settable is None,
        attempt=decision.attempt.attempt if decision.attempt is not None else None,
    )


def take_up_again(decision: Decision, incident: Incident) -> bool:
    """Go on with a rung whose plan was broken off by a stop before anything was launched; False when there is none."""
    last, rungs = incident.last_try, decision.rungs_of(incident)
    broken_off = incident.state is IncidentState.OPEN and last is not None and last.outcome is Outcome.PENDING
    if not broken_off or incident.is_waiting or decision.observes_only or not 0 <= incident.rung < len(rungs):
        return False
    treatment = _treatment(decision, incident, incident.rung, decision.is_alive)
    _launch(decision, incident.id, treatment, 0.0)
    return True


def _of_this_cause(decision: Decision, incident: Incident, interventions_s: tuple[float, ...]) -> tuple[float, ...]:
    """Of the interventions that count, those for incidents of the same kind."""
    same = {t.taken_s for i in decision.state.incidents if i.kind is incident.kind for t in i.tries}
    return tuple(at_s for at_s in interventions_s if at_s in same)


def _spent(decision: Decision, reason: str) -> str:
    """An attempt that trained again what was trained before made no progress, and did not die before its first step."""
    deaths = deaths_before_a_step(decision)
    if deaths > 1:
        return f"broken job: {deaths} launches in a row died before their first step (budget: {reason})"
    return f"budget: {reason}"


def _refill(decision: Decision) -> None:
    state, after = decision.state, decision.policy.spec.budget.refill_after_progress_steps
    if state.interventions_s and decision.newest_step - state.intervention_step >= after:
        decision.record(
            f.BudgetRefilled(f"{after} steps of progress since the last intervention at step {state.intervention_step}")
        )
