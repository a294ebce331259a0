"""What became of an action: the plan goes on, or is made again without what failed, or nobody but a person can help."""

from __future__ import annotations

from sentinel.engine import applying, sample_attribution
from sentinel.engine.another_checkpoint import choose_again, pass_over, pass_over_unread
from sentinel.engine.attempts import launch_first_or_next, on_checkpoint
from sentinel.engine.decision import Decision
from sentinel.engine.diagnosis import conclude
from sentinel.engine.engine_trouble import on_killed, start_again
from sentinel.engine.giving_up import unable
from sentinel.engine.ladder import fail_rung
from sentinel.engine.leaving import end_stopped
from sentinel.engine.node_checks import conclude as conclude_check
from sentinel.engine.paging import send
from sentinel.engine.relaunching import proceed
from sentinel.engine.retention import on_anchor_read, on_anchor_unread, on_not_pruned, on_pruned
from sentinel.engine.stopping import ask_to_stop
from sentinel.model import facts as f
from sentinel.model.actions import (
    Action,
    Capture,
    CheckNodes,
    CompareRecords,
    FindCheckpoints,
    InspectSamples,
    KillAttempt,
    LoadPolicy,
    PruneCheckpoint,
    Quarantine,
    ReadAnchor,
    RequestStop,
    SendPage,
    SignalRanks,
    StartAttempt,
    VerifyCheckpoint,
)
from sentinel.model.events import ActionDone, ActionFailed
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.node_checks import NodeVerdicts, NodeWord
from sentinel.model.readings import CheckpointRead
from sentinel.model.records import Attribution, Comparison, FoundCheckpoints, LoadedPolicy
from sentinel.model.saved import SavedNumbers
from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.plan.node_check import describe_verdicts

NOT_OVER_UNSEEN = "nothing is started over what cannot be seen: mend the directory and start the run again"


def on_done(decision: Decision, done: ActionDone) -> None:
    action = decision.state.pending.get(done.key)
    if action is None:
        return None  # confirmed twice: the same as once
    if isinstance(action, LoadPolicy):
        assert isinstance(done.found, LoadedPolicy), "whoever loads a policy says which"
        return applying.on_loaded(decision, action, done.found)
    plan = decision.state.plan
    if isinstance(action, Quarantine):
        decision.record(f.CheckpointsQuarantined(action.above_step, action.reason))
    detail = done.detail
    if isinstance(action, VerifyCheckpoint) and isinstance(done.found, SavedNumbers):
        verdict = judge_numbers(done.found)
        detail = verdict.reason
        if verdict.evidence:
            decision.record(f.ActionAbandoned(done.key, verdict.reason))
            return pass_over(decision, action, verdict.reason, verdict.evidence)
        if done.found.read is not None:
            decision.record(f.CheckpointVerified(action.step, done.found.digest, done.found.read, done.key))
    if isinstance(done.found, FoundCheckpoints):
        for reading in done.found.checkpoints:
            on_checkpoint(decision, reading)
        detail = f"{len(done.found.checkpoints)} found"
    detail = describe_verdicts(done.found) if isinstance(done.found, NodeVerdicts) else detail
    decision.record(f.ActionConfirmed(done.key, detail))
    if isinstance(action, CheckNodes) and isinstance(done.found, NodeVerdicts) and conclude_check(decision, action, done.found):
        return None
    if isinstance(action, CompareRecords):
        return _compared(decision, action, done.found if isinstance(done.found, Comparison) else None)
    if isinstance(action, InspectSamples):
        return _inspected(decision, action, done.found)
    if isinstance(action, PruneCheckpoint):
        return on_pruned(decision, done.detail)
    if isinstance(action, ReadAnchor) and isinstance(done.found, CheckpointRead):
        return on_anchor_read(decision, action, done.found)
    if isinstance(action, SendPage):
        return _send_next(decision, action)
    if isinstance(action, KillAttempt) and on_killed(decision, action, detail):
        return None
    if plan is None or plan.actions[plan.next].key != done.key:
        return None
    if decision.state.plan is not None:
        if decision.state.stop_by and not decision.is_alive:
            decision.record(f.PlanDropped(f"stopped by {decision.state.stop_by}"))
            return end_stopped(decision, f"stopped by {decision.state.stop_by} during a recovery")
        if decision.state.hold_by and not decision.is_alive:
            decision.record(f.PlanDropped(f"held by {decision.state.hold_by}"))
            return decision.record(f.Held(f"held by {decision.state.hold_by} during a recovery"))
        return choose_again(decision, plan) if isinstance(action, FindCheckpoints) else proceed(decision)
    return _plan_done(decision, plan.incident)


def _inspected(decision: Decision, action: InspectSamples, found: object) -> None:
    unanswered = Attribution("failed", "the inspection answered nothing", action.attempt, action.suspect)
    sample_attribution.conclude(decision, action, found if isinstance(found, Attribution) else unanswered)


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
    if isinstance(action, StartAttempt) and failed.by_engine:
        start_again(decision, action, failed.reason)
        return
    decision.record(f.ActionAbandoned(failed.key, failed.reason, withdrawn=failed.overdue))
    match action:
        case VerifyCheckpoint() if failed.overdue:
            pass_over_unread(decision, action, failed.reason)
        case VerifyCheckpoint() if failed.retry_in_s is not None:  # it could not be read for long: that condemns nothing
            unable(decision, action, f"checkpoint of step {action.step} cannot be read: {failed.reason}")
        case VerifyCheckpoint():
            pass_over(decision, action, failed.reason, "bytes")
        case FindCheckpoints():
            unable(decision, action, f"which checkpoints there are cannot be read: {failed.reason}; {NOT_OVER_UNSEEN}")
        case Capture():
            _go_on_without(decision, action, f.about_incident(action.incident), f"evidence could not be saved: {failed.reason}")
        case SendPage():
            decision.note(f.about_incident(action.incident), f"{action.stage} not delivered on {action.route}: {failed.reason}")
            _send_next(decision, action)
        case StartAttempt():
            reason = f"attempt {action.attempt} could not be started: {failed.reason}"
            decision.record(f.AttemptEnded(action.attempt, "lost", reason, decision.newest_step, decision.now_s))
            unable(decision, action, reason)
        case CompareRecords():
            decision.note(f.about_incident(action.incident), f"the records could not be compared: {failed.reason}")
            _compared(decision, action, None)
        case InspectSamples():
            sample_attribution.conclude(decision, action, Attribution("failed", failed.reason, action.attempt, action.suspect))
        case PruneCheckpoint():
            on_not_pruned(decision, action, failed.reason)
        case ReadAnchor():
            on_anchor_unread(decision, action, failed.reason)
        case CheckNodes():
            _go_on_unchecked(decision, action, failed.reason)
        case LoadPolicy():
            applying.on_unread(decision, action, failed.reason)
        case RequestStop() | SignalRanks():
            decision.note("stop", failed.reason)
        case _ if action.if_failed == "go on":
            plan = decision.state.plan
            about = f.about_incident(plan.incident) if plan is not None and plan.incident is not None else "actions"
            _go_on_without(decision, action, about, f"could not {action.words}: {failed.reason}")
        case _:
            unable(decision, action, failed.reason)


def _go_on_without(decision: Decision, action: Action, about: str, reason: str) -> None:
    """The plan does without an action that it does not need."""
    plan = decision.state.plan
    decision.note(about, reason)
    decision.record(f.ActionConfirmed(action.key, "failed"))
    if plan is not None and decision.state.plan is None:
        return _plan_done(decision, plan.incident)
    return proceed(decision)


def _go_on_unchecked(decision: Decision, action: CheckNodes, reason: str) -> None:
    """Nothing is known of any node: a launch goes on, and nobody is let back."""
    plan = decision.state.plan
    conclude_check(decision, action, NodeVerdicts(unknown=tuple(NodeWord(node, reason) for node in action.nodes), trouble=reason))
    if plan is not None and plan.actions[plan.next].key == action.key:
        decision.record(f.ActionConfirmed(action.key, "failed"))
        proceed(decision)


def _send_next(decision: Decision, action: SendPage) -> None:
    """On a route one sending follows the other, and one that failed brings the next route forward."""
    if any(i.id == action.incident for i in decision.state.incidents):
        send(decision, action.incident)
