"""A relaunch under way: the plan that ends in a new attempt, action by action, and what it costs."""

from __future__ import annotations

from dataclasses import replace

from sentinel.engine.decision import Decision
from sentinel.engine.disk_room import hold_back
from sentinel.engine.leaving import end_stopped
from sentinel.engine.lost_steps import count_lost
from sentinel.engine.node_checks import check_before_launch
from sentinel.model import facts as f
from sentinel.model.actions import Action, InspectSamples, StartAttempt
from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.plan.build import build_relaunch
from sentinel.plan.overrides import done_once_at
from sentinel.plan.remedy import InspectionPlan
from sentinel.plan.verifying import build_verification, vouch


def relaunch(
    decision: Decision,
    incident_id: int | None,
    resume: ResumePoint | None,
    overrides: SettingsInForce,
    wait_s: float,
    reason: str,
    inspection: InspectionPlan | None = None,
    more: tuple[Action, ...] = (),
    asked: bool = False,
) -> None:
    """Adopt the plan that ends in a new attempt, and decide its first action. `inspection`: of samples, before the launch.
    `more`: what the rung adds. `asked`: a person chose where to resume; else it is chosen anew where more are found."""
    attempt, number, inspect = decision.attempt, decision.state.next_attempt, None
    excluded = tuple(one.node for one in decision.state.excluded)
    if inspection is not None and incident_id is not None:
        inspect = InspectSamples(
            key=f"inspect/{number}",
            incident=incident_id,
            rung=inspection.rung,
            attempt=number,
            resume=resume,
            overrides=replace(inspection.overrides, id=f"ov-{number}"),
            samples=inspection.samples,
            suspect=inspection.suspect,
            within_s=inspection.within_s,
            exclude_nodes=excluded,
        )
        number += 1
    named = done_once_at(replace(overrides, id=f"ov-{number}"), resume.step if resume else 0)
    actions = build_relaunch(
        incident=incident_id,
        old_attempt=attempt.attempt if attempt else None,
        is_alive=decision.is_alive,
        new_attempt=number,
        resume=resume,
        overrides=named,
        not_before_s=decision.now_s + wait_s if wait_s else 0.0,
        reason=reason,
        inspect=inspect,
        exclude_nodes=excluded,
        more=more,
        finds=decision.state.may_lack_checkpoints and not asked,
        verify=build_verification(decision.state, number, resume, decision.policy.spec.checkpoints.verify),
        check=check_before_launch(decision, number),
    )
    if decision.is_alive and attempt is not None:
        decision.record(f.AttemptStopping(attempt.attempt, reason))
    decision.record(f.PlanAdopted(incident_id, actions, reason))
    proceed(decision)


def proceed(decision: Decision) -> None:
    """Decide the plan's next action, if a plan is under way."""
    plan = decision.state.plan
    if plan is None:
        return
    action = plan.actions[plan.next]
    if isinstance(action, StartAttempt):
        if hold_back(decision, action):
            return
        count_lost(decision, plan.incident, action)
        _see_ended(decision, action)
        word = vouch(decision.state, decision.now_s, action.attempt, action.resume)
        excluded = tuple(one.node for one in decision.state.excluded)  # since the plan was made a check may have spoken
        decision.launch(replace(action, vouched=word, exclude_nodes=excluded), plan.reason or "launch")
    elif isinstance(action, InspectSamples):
        decision.record(f.InspectionLaunched(action.incident, action.attempt))
        decision.decide(action)
    else:
        decision.decide(action)


def try_again(decision: Decision) -> None:
    """On every tick: a launch that was held back for want of room, or that somebody wants no more."""
    plan, state = decision.state.plan, decision.state
    action = plan.actions[plan.next] if plan is not None else None
    if not isinstance(action, StartAttempt) or action.key in state.pending:
        return None
    if not (state.stop_by or state.hold_by):
        return proceed(decision)
    if decision.is_alive:
        return None  # its end is still to be read
    by = f"stopped by {state.stop_by}" if state.stop_by else f"held by {state.hold_by}"
    decision.record(f.PlanDropped(by))
    reason = f"{by} while a launch waited for room on the disk"
    return end_stopped(decision, reason) if state.stop_by else decision.record(f.Held(reason))


def _see_ended(decision: Decision, action: StartAttempt) -> None:
    """Everything before a launch is confirmed, the kill too: an attempt whose exit was not read yet has ended all the same."""
    attempt = decision.attempt
    if attempt is None or attempt.is_over or attempt.attempt == action.attempt:
        return
    last_s = decision.live.last_step_s if decision.live.last_step_s is not None else decision.now_s
    reason = f"{attempt.stopping or 'killed'}; the next attempt was launched before its exit was read"
    decision.record(f.AttemptEnded(attempt.attempt, "killed", reason, decision.newest_step, last_s))
    decision.detectors.end_attempt()


def drop_live_plan(decision: Decision, reason: str) -> None:
    """A change that is being written to an attempt is overtaken by what happens to that attempt."""
    plan = decision.state.plan
    if plan is not None and plan.is_live:
        decision.record(f.PlanDropped(f"overtaken before it was confirmed: {reason}"))


def drop_needless_plan(decision: Decision, reason: str, *, has_finished: bool) -> None:
    """The trainer had finished, and its processes hung while they left, or one of them died: to launch them again would train
    nothing, and hang again. A plan against damage in the numbers goes on, and so does what a person asked for."""
    plan = decision.state.plan
    is_of_processes = plan is not None and plan.incident is not None and not decision.state.incident(plan.incident).is_numeric
    if has_finished and is_of_processes:
        decision.record(f.PlanDropped(f"nothing is left to train: {reason}"))
