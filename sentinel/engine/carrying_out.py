"""What became of an action: the plan goes on, or is made again without what failed, or nobody but a person can help."""

from __future__ import annotations

from typing import assert_never

from sentinel.engine import attributing
from sentinel.engine.attempts import launch_first_or_next
from sentinel.engine.decision import Draft
from sentinel.engine.diagnosing import conclude
from sentinel.engine.giving_up import FAILED, fail_run, finish_giving_up, give_up
from sentinel.engine.ladder import fail_rung
from sentinel.engine.lapsing import spare_steps
from sentinel.engine.paging import page, send
from sentinel.engine.relaunching import proceed, relaunch
from sentinel.engine.retaining import on_not_pruned, on_pruned
from sentinel.engine.stopping import ask_to_stop
from sentinel.model import facts as f
from sentinel.model.actions import (
    Action,
    Capture,
    CompareRecords,
    InspectSamples,
    KillAttempt,
    PruneCheckpoint,
    Quarantine,
    RequestStop,
    SendPage,
    SignalRanks,
    StartAttempt,
    VerifyCheckpoint,
    WriteOverrides,
)
from sentinel.model.attempts import Evidence, ResumePoint
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.records import Attribution, Comparison, SavedNumbers
from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.plan.remedy import Look, build_treatment
from sentinel.plan.rollback import choose_newest

NOT_FROM_SCRATCH = (
    "sentinel does not start from scratch for that: restore one and start the run again, or begin a new run directory"
)


def on_done(draft: Draft, done: ActionDone) -> None:
    action = draft.state.pending.get(done.key)
    if action is None:
        return None  # confirmed twice: the same as once
    plan = draft.state.plan
    if isinstance(action, Quarantine):
        draft.record(f.CheckpointsQuarantined(action.above_step, action.reason))
    detail = done.detail
    if isinstance(action, VerifyCheckpoint) and isinstance(done.found, SavedNumbers):
        verdict = judge_numbers(done.found)
        detail = verdict.reason
        if verdict.evidence:
            draft.record(f.ActionAbandoned(done.key, verdict.reason))
            return _pass_over(draft, action, verdict.reason, verdict.evidence)
    draft.record(f.ActionConfirmed(done.key, detail))
    if isinstance(action, CompareRecords):
        return _compared(draft, action, done.found if isinstance(done.found, Comparison) else None)
    if isinstance(action, InspectSamples):
        said = Attribution("failed", "the inspection answered nothing", action.attempt, action.suspect)
        return attributing.conclude(draft, action, done.found if isinstance(done.found, Attribution) else said)
    if isinstance(action, PruneCheckpoint):
        return on_pruned(draft, done.detail)
    if isinstance(action, SendPage):
        return _send_next(draft, action)
    if plan is None or plan.actions[plan.next].key != done.key:
        return None
    if draft.state.plan is not None:
        if draft.state.stop_by and not draft.is_alive:
            draft.record(f.PlanDropped(f"stopped by {draft.state.stop_by}"))
            return draft.record(f.RunEnded("stopped", f"stopped by {draft.state.stop_by} during a recovery"))
        if draft.state.hold_by and not draft.is_alive:
            draft.record(f.PlanDropped(f"held by {draft.state.hold_by}"))
            return draft.record(f.Held(f"held by {draft.state.hold_by} during a recovery"))
        return proceed(draft)
    return _plan_done(draft, plan.incident)


def _compared(draft: Draft, action: CompareRecords, found: Comparison | None) -> None:
    """What the diagnosis leads to, unless something else is under way by now: then the rung has failed, and the next is taken
    when the failure strikes again. A run whose attempt died meanwhile is launched again in any case."""
    failed, state = conclude(draft, action, found), draft.state
    busy = state.plan is not None or state.giving_up or state.hold_by or state.held or state.stop_by or state.ended
    if failed is not None and not busy:
        fail_rung(draft, action.incident, failed)
    elif failed is not None:
        draft.record(f.RungJudged(action.incident, Outcome.FAILED, failed))
        draft.record(f.IncidentMoved(action.incident, IncidentState.OPEN, failed))
    elif not busy and not draft.is_alive and not any(i.awaits_approval for i in state.open_incidents):
        launch_first_or_next(draft, "the attempt ended before its records were compared")


def _plan_done(draft: Draft, incident_id: int | None) -> None:
    """The remedy is launched: now it must prove itself."""
    if incident_id is not None and draft.state.incident(incident_id).state is IncidentState.OPEN:
        draft.record(f.IncidentMoved(incident_id, IncidentState.PROBATION, "the remedy is launched; watching whether it works"))
    if draft.state.stop_by or draft.state.hold_by:
        ask_to_stop(draft)


def on_failed(draft: Draft, failed: ActionFailed) -> None:
    """An action that cannot take effect. (One that may work later is asked for again by the daemon and never comes here.)"""
    action = draft.state.pending.get(failed.key)
    if action is None:
        return
    draft.record(f.ActionAbandoned(failed.key, failed.reason))
    match action:
        case VerifyCheckpoint() if failed.retry_in_s is not None:  # it could not be read for long: that condemns nothing
            _unable(draft, action, f"checkpoint of step {action.step} cannot be read: {failed.reason}")
        case VerifyCheckpoint():
            _pass_over(draft, action, failed.reason, "bytes")
        case Capture():
            draft.note(f"incident {action.incident}", f"evidence could not be saved: {failed.reason}")
            draft.record(f.ActionConfirmed(action.key, "failed"))
            proceed(draft)
        case SendPage():
            draft.note(f"incident {action.incident}", f"{action.stage} not delivered on {action.route}: {failed.reason}")
            _send_next(draft, action)
        case StartAttempt():
            reason = f"attempt {action.attempt} could not be started: {failed.reason}"
            draft.record(f.AttemptEnded(action.attempt, "lost", reason, draft.newest_step, draft.now_s))
            _unable(draft, action, reason)
        case KillAttempt() | Quarantine() | WriteOverrides():
            _unable(draft, action, failed.reason)
        case CompareRecords():
            draft.note(f"incident {action.incident}", f"the records could not be compared: {failed.reason}")
            _compared(draft, action, None)
        case InspectSamples():
            attributing.conclude(draft, action, Attribution("failed", failed.reason, action.attempt, action.suspect))
        case PruneCheckpoint():
            on_not_pruned(draft, action, failed.reason)
        case RequestStop() | SignalRanks():
            draft.note("stop", failed.reason)
        case _:
            assert_never(action)


def _send_next(draft: Draft, action: SendPage) -> None:
    """On a route one sending follows the other, and one that failed brings the next route forward."""
    if any(i.id == action.incident for i in draft.state.incidents):
        send(draft, action.incident)


def _pass_over(draft: Draft, action: VerifyCheckpoint, damage: str, evidence: Evidence) -> None:
    draft.record(f.CheckpointCondemned(action.step, damage, damaged=True, evidence=evidence))
    _again_without(draft, action, damage)


def _again_without(draft: Draft, action: VerifyCheckpoint, damage: str) -> None:
    """The checkpoint is damaged: the same rung again, from the next older one. Never from scratch because none is whole: that
    would throw the run away, and a person may still mend or restore one."""
    plan = draft.state.plan
    if plan is None:
        return None
    start = next(a for a in plan.actions if isinstance(a, StartAttempt))
    resume, reason = _next_older(draft, plan.incident, action.step, start.overrides.data_seed)
    if resume is None:
        none_left = f"no checkpoint is left to go back to, the last one is damaged ({damage}); {NOT_FROM_SCRATCH}"
        return _unable(draft, action, none_left)
    passed_over = f"the checkpoint of step {action.step} is damaged"
    draft.record(f.PlanDropped(passed_over))
    draft.note("rollback", f"{passed_over}; instead: {reason}")
    wait_s = max(0.0, start.not_before_s - draft.now_s)
    inspect = next((a for a in plan.actions if isinstance(a, InspectSamples)), None)
    look = Look(inspect.rung, inspect.samples, inspect.suspect, inspect.overrides, inspect.within_s) if inspect else None
    return relaunch(draft, plan.incident, resume, start.overrides, wait_s, f"{reason}; {passed_over}", look)


def _next_older(
    draft: Draft, incident_id: int | None, damaged_step: int, data_seed: int | None
) -> tuple[ResumePoint | None, str]:
    """What the rung, or the launch, comes to without the checkpoint just condemned: where from, and why. `data_seed`: of the
    order that the launch was to have."""
    state = draft.state
    incident = state.incident(incident_id) if incident_id is not None else None
    rungs = draft.rungs_of(incident) if incident is not None else ()
    if incident is None or not 0 <= incident.rung < len(rungs):
        older = (c for c in state.checkpoints if c.step < damaged_step)  # a person may have asked for an older one to begin with
        choice = choose_newest(older, state.open_incidents)
        found = choice.checkpoint
        return ResumePoint(found.step, found.path, found.digest) if found else None, choice.reason
    known = (state.checkpoints, state.open_incidents, state.overrides, False)
    built = build_treatment(rungs, incident.rung, incident, *known, new_seed=data_seed, spare=spare_steps(draft))
    return built.resume, built.remedy.reason


def _unable(draft: Draft, action: Action, reason: str) -> None:
    """Sentinel itself cannot act: that is a page, whatever the playbook would still have tried."""
    plan = draft.state.plan
    draft.record(f.PlanDropped(f"unable to act: {reason}"))
    if plan is not None and plan.incident is not None and not draft.state.incident(plan.incident).is_closed:
        give_up(draft, plan.incident, f"unable to act: {reason}")
        if not (draft.is_alive or draft.state.giving_up or draft.state.ended):  # `keep_training`, and nothing is there to train
            fail_run(draft, f"unable to act: {reason}")
        return
    if draft.state.incidents:
        follows = "the attempt trains on, and nobody repairs it" if draft.is_alive else FAILED
        page(draft, draft.state.incidents[-1].id, "critical", f"unable to act: {reason}", follows)
    if draft.state.giving_up and isinstance(action, KillAttempt):
        return  # the attempt still lives: the page says so, and its end will be seen when it comes
    if draft.is_alive:
        return
    finish_giving_up(draft)
    if not draft.state.ended and not draft.state.held:
        fail_run(draft, f"unable to act: {reason}")
