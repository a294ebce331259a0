"""What became of an action: the plan goes on, or is made again without what failed, or nobody but a person can help."""

from __future__ import annotations

from sentinel.engine import sample_attribution
from sentinel.engine.attempts import launch_first_or_next, on_checkpoint
from sentinel.engine.decision import Decision
from sentinel.engine.diagnosis import conclude
from sentinel.engine.giving_up import FAILED, fail_run, finish_giving_up, give_up
from sentinel.engine.ladder import fail_rung, treatment_now
from sentinel.engine.leaving import end_stopped
from sentinel.engine.paging import page, send
from sentinel.engine.relaunching import proceed, relaunch
from sentinel.engine.retention import on_not_pruned, on_pruned
from sentinel.engine.stopping import ask_to_stop
from sentinel.model import facts as f
from sentinel.model.actions import (
    Action,
    Capture,
    CompareRecords,
    FindCheckpoints,
    InspectSamples,
    KillAttempt,
    PruneCheckpoint,
    Quarantine,
    RequestStop,
    SendPage,
    SignalRanks,
    StartAttempt,
    VerifyCheckpoint,
)
from sentinel.model.attempts import Evidence, ResumePoint
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.records import Attribution, Comparison, FoundCheckpoints, SavedNumbers
from sentinel.model.state import PlanInProgress
from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.plan.remedy import InspectionPlan
from sentinel.plan.rollback import choose_newest

NOT_FROM_SCRATCH = (
    "sentinel does not start from scratch for that: restore one and start the run again, or begin a new run directory"
)
NOT_OVER_UNSEEN = "nothing is started over what cannot be seen: mend the directory and start the run again"


def on_done(decision: Decision, done: ActionDone) -> None:
    action = decision.state.pending.get(done.key)
    if action is None:
        return None  # confirmed twice: the same as once
    plan = decision.state.plan
    if isinstance(action, Quarantine):
        decision.record(f.CheckpointsQuarantined(action.above_step, action.reason))
    detail = done.detail
    if isinstance(action, VerifyCheckpoint) and isinstance(done.found, SavedNumbers):
        verdict = judge_numbers(done.found)
        detail = verdict.reason
        if verdict.evidence:
            decision.record(f.ActionAbandoned(done.key, verdict.reason))
            return _pass_over(decision, action, verdict.reason, verdict.evidence)
    if isinstance(done.found, FoundCheckpoints):
        for reading in done.found.checkpoints:
            on_checkpoint(decision, reading)
        detail = f"{len(done.found.checkpoints)} found"
    decision.record(f.ActionConfirmed(done.key, detail))
    if isinstance(action, CompareRecords):
        return _compared(decision, action, done.found if isinstance(done.found, Comparison) else None)
    if isinstance(action, InspectSamples):
        unanswered = Attribution("failed", "the inspection answered nothing", action.attempt, action.suspect)
        return sample_attribution.conclude(decision, action, done.found if isinstance(done.found, Attribution) else unanswered)
    if isinstance(action, PruneCheckpoint):
        return on_pruned(decision, done.detail)
    if isinstance(action, SendPage):
        return _send_next(decision, action)
    if plan is None or plan.actions[plan.next].key != done.key:
        return None
    if decision.state.plan is not None:
        if decision.state.stop_by and not decision.is_alive:
            decision.record(f.PlanDropped(f"stopped by {decision.state.stop_by}"))
            return end_stopped(decision, f"stopped by {decision.state.stop_by} during a recovery")
        if decision.state.hold_by and not decision.is_alive:
            decision.record(f.PlanDropped(f"held by {decision.state.hold_by}"))
            return decision.record(f.Held(f"held by {decision.state.hold_by} during a recovery"))
        return _choose_again(decision, plan) if isinstance(action, FindCheckpoints) else proceed(decision)
    return _plan_done(decision, plan.incident)


def _compared(decision: Decision, action: CompareRecords, found: Comparison | None) -> None:
    """What the diagnosis leads to, unless something else is under way by now: then the rung has failed, and the next is taken
    when the failure strikes again. A run whose attempt died meanwhile is launched again in any case."""
    failed, state = conclude(decision, action, found), decision.state
    busy = state.plan is not None or state.giving_up or state.hold_by or state.held or state.stop_by or state.ended
    if failed is not None and not busy:
        fail_rung(decision, action.incident, failed)
    elif failed is not None:
        decision.record(f.RungJudged(action.incident, Outcome.FAILED, failed))
        decision.record(f.IncidentMoved(action.incident, IncidentState.OPEN, failed))
    elif not busy and not decision.is_alive and not any(i.awaits_approval for i in state.open_incidents):
        launch_first_or_next(decision, "the attempt ended before its records were compared")


def _plan_done(decision: Decision, incident_id: int | None) -> None:
    """The remedy is launched: now it must prove itself."""
    if incident_id is not None and decision.state.incident(incident_id).state is IncidentState.OPEN:
        decision.record(
            f.IncidentMoved(incident_id, IncidentState.PROBATION, "the remedy is launched; watching whether it works")
        )
    if decision.state.stop_by or decision.state.hold_by:
        ask_to_stop(decision)


def on_failed(decision: Decision, failed: ActionFailed) -> None:
    """An action that cannot take effect. (One that may work later is asked for again by the daemon and never comes here.)"""
    action = decision.state.pending.get(failed.key)
    if action is None:
        return
    decision.record(f.ActionAbandoned(failed.key, failed.reason))
    match action:
        case VerifyCheckpoint() if failed.retry_in_s is not None:  # it could not be read for long: that condemns nothing
            _unable(decision, action, f"checkpoint of step {action.step} cannot be read: {failed.reason}")
        case VerifyCheckpoint():
            _pass_over(decision, action, failed.reason, "bytes")
        case FindCheckpoints():
            _unable(decision, action, f"which checkpoints there are cannot be read: {failed.reason}; {NOT_OVER_UNSEEN}")
        case Capture():
            _go_on_without(decision, action, f.about_incident(action.incident), f"evidence could not be saved: {failed.reason}")
        case SendPage():
            decision.note(f.about_incident(action.incident), f"{action.stage} not delivered on {action.route}: {failed.reason}")
            _send_next(decision, action)
        case StartAttempt():
            reason = f"attempt {action.attempt} could not be started: {failed.reason}"
            decision.record(f.AttemptEnded(action.attempt, "lost", reason, decision.newest_step, decision.now_s))
            _unable(decision, action, reason)
        case CompareRecords():
            decision.note(f.about_incident(action.incident), f"the records could not be compared: {failed.reason}")
            _compared(decision, action, None)
        case InspectSamples():
            sample_attribution.conclude(decision, action, Attribution("failed", failed.reason, action.attempt, action.suspect))
        case PruneCheckpoint():
            on_not_pruned(decision, action, failed.reason)
        case RequestStop() | SignalRanks():
            decision.note("stop", failed.reason)
        case _ if action.if_failed == "go on":
            plan = decision.state.plan
            about = f.about_incident(plan.incident) if plan is not None and plan.incident is not None else "actions"
            _go_on_without(decision, action, about, f"could not {action.words}: {failed.reason}")
        case _:
            _unable(decision, action, failed.reason)


def _go_on_without(decision: Decision, action: Action, about: str, reason: str) -> None:
    """The plan does without an action that it does not need."""
    plan = decision.state.plan
    decision.note(about, reason)
    decision.record(f.ActionConfirmed(action.key, "failed"))
    if plan is not None and decision.state.plan is None:
        return _plan_done(decision, plan.incident)
    return proceed(decision)


def _send_next(decision: Decision, action: SendPage) -> None:
    """On a route one sending follows the other, and one that failed brings the next route forward."""
    if any(i.id == action.incident for i in decision.state.incidents):
        send(decision, action.incident)


def _pass_over(decision: Decision, action: VerifyCheckpoint, damage: str, evidence: Evidence) -> None:
    decision.record(f.CheckpointCondemned(action.step, damage, damaged=True, evidence=evidence))
    _again_without(decision, action, damage)


def _again_without(decision: Decision, action: VerifyCheckpoint, damage: str) -> None:
    """The checkpoint is damaged: the same rung again, from the next older one. Never from scratch because none is whole: that
    would throw the run away, and a person may still mend or restore one."""
    plan = decision.state.plan
    if plan is None:
        return None
    start = next(a for a in plan.actions if isinstance(a, StartAttempt))
    resume, reason = _next_older(decision, plan.incident, action.step, start.overrides.data_seed)
    if resume is None:
        none_left = f"no checkpoint is left to go back to, the last one is damaged ({damage}); {NOT_FROM_SCRATCH}"
        return _unable(decision, action, none_left)
    return _relaunch_instead(decision, plan, resume, reason, f"the checkpoint of step {action.step} is damaged")


def _choose_again(decision: Decision, plan: PlanInProgress) -> None:
    """There may be checkpoints that nobody knew of when the plan was made, whether this action found them or their source did."""
    start = next(a for a in plan.actions if isinstance(a, StartAttempt))
    resume, reason = _next_older(decision, plan.incident, None, start.overrides.data_seed)
    if (resume.path if resume else None) == (start.resume.path if start.resume else None):
        return proceed(decision)
    return _relaunch_instead(decision, plan, resume, reason, "a checkpoint was found that was not known when this was planned")


def _relaunch_instead(
    decision: Decision, plan: PlanInProgress, resume: ResumePoint | None, reason: str, because: str
) -> None:
    """The same rung from another checkpoint, with what is left of the plan."""
    start = next(a for a in plan.actions if isinstance(a, StartAttempt))
    decision.record(f.PlanDropped(because))
    decision.note("rollback", f"{because}; instead: {reason}")
    wait_s = max(0.0, start.not_before_s - decision.now_s)
    inspect = next((a for a in plan.actions if isinstance(a, InspectSamples)), None)
    inspection = (
        InspectionPlan(inspect.rung, inspect.samples, inspect.suspect, inspect.overrides, inspect.within_s) if inspect else None
    )
    more = tuple(a for a in plan.actions[plan.next :] if a.place)  # what the rung adds, and was not done yet
    return relaunch(decision, plan.incident, resume, start.overrides, wait_s, f"{reason}; {because}", inspection, more)


def _next_older(
    decision: Decision, incident_id: int | None, damaged_step: int | None, data_seed: int | None
) -> tuple[ResumePoint | None, str]:
    """What the rung, or the launch, comes to without the checkpoint just condemned (None: none was): where from, and why.
    `data_seed`: of the order that the launch was to have."""
    state = decision.state
    incident = state.incident(incident_id) if incident_id is not None else None
    rungs = decision.rungs_of(incident) if incident is not None else ()
    if incident is None or not 0 <= incident.rung < len(rungs):
        # a person may have asked for an older one to begin with
        older = (c for c in state.checkpoints if damaged_step is None or c.step < damaged_step)
        choice = choose_newest(older, state.open_incidents)
        found = choice.checkpoint
        return ResumePoint(found.step, found.path, found.digest) if found else None, choice.reason
    built = treatment_now(decision, incident, incident.rung, False, data_seed)
    return built.resume, built.remedy.reason


def _unable(decision: Decision, action: Action, reason: str) -> None:
    """Sentinel itself cannot act: that is a page, whatever the playbook would still have tried."""
    plan = decision.state.plan
    decision.record(f.PlanDropped(f"unable to act: {reason}"))
    if plan is not None and plan.incident is not None and not decision.state.incident(plan.incident).is_closed:
        give_up(decision, plan.incident, f"unable to act: {reason}")
        if not (
            decision.is_alive or decision.state.giving_up or decision.state.ended
        ):  # `keep_training`, and nothing is there to train
            fail_run(decision, f"unable to act: {reason}")
        return
    if decision.state.incidents:
        follows = "the attempt trains on, and nobody repairs it" if decision.is_alive else FAILED
        page(decision, decision.state.incidents[-1].id, "critical", f"unable to act: {reason}", follows)
    if decision.state.giving_up and isinstance(action, KillAttempt):
        return  # the attempt still lives: the page says so, and its end will be seen when it comes
    if decision.is_alive:
        return
    finish_giving_up(decision)
    if not decision.state.ended and not decision.state.held:
        fail_run(decision, f"unable to act: {reason}")
