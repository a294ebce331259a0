"""A relaunch under way: the plan that ends in a new attempt, action by action, and what it costs."""

from __future__ import annotations

from dataclasses import replace

from sentinel.engine.decision import Draft
from sentinel.model import facts as f
from sentinel.model.actions import InspectSamples, StartAttempt
from sentinel.model.attempts import Overrides, ResumePoint
from sentinel.plan.build import build_relaunch
from sentinel.plan.overrides import done_once_at
from sentinel.plan.remedy import Look


def relaunch(
    draft: Draft,
    incident_id: int | None,
    resume: ResumePoint | None,
    overrides: Overrides,
    wait_s: float,
    reason: str,
    look: Look | None = None,
) -> None:
    """Adopt the plan that ends in a new attempt, and decide its first action. `look`: at samples, before the launch."""
    attempt, number = draft.attempt, draft.state.next_attempt
    excluded = tuple(one.node for one in draft.state.excluded)
    inspect = None
    if look is not None and incident_id is not None:
        settings, key = replace(look.overrides, id=f"ov-{number}"), f"inspect/{number}"
        where = (resume, settings, look.samples, look.suspect, look.within_s, excluded)
        inspect = InspectSamples(key, incident_id, look.rung, number, *where)
        number += 1
    named = done_once_at(replace(overrides, id=f"ov-{number}"), resume.step if resume else 0)
    actions = build_relaunch(
        incident=incident_id,
        old_attempt=attempt.attempt if attempt else None,
        is_alive=draft.is_alive,
        new_attempt=number,
        resume=resume,
        overrides=named,
        not_before_s=draft.now_s + wait_s if wait_s else 0.0,
        reason=reason,
        inspect=inspect,
        exclude_nodes=excluded,
    )
    if draft.is_alive and attempt is not None:
        draft.record(f.AttemptStopping(attempt.attempt, reason))
    draft.record(f.PlanAdopted(incident_id, actions, reason))
    proceed(draft)


def proceed(draft: Draft) -> None:
    """Decide the plan's next action, if a plan is under way."""
    plan = draft.state.plan
    if plan is None:
        return
    action = plan.actions[plan.next]
    if isinstance(action, StartAttempt):
        _count_lost(draft, plan.incident, action)
        _see_ended(draft, action)
        draft.launch(action, plan.reason or "launch")
    elif isinstance(action, InspectSamples):
        draft.record(f.InspectionLaunched(action.incident, action.attempt))
        draft.decide(action)
    else:
        draft.decide(action)


def _count_lost(draft: Draft, incident: int | None, action: StartAttempt) -> None:
    """Steps to be trained again. After a restart of the supervisor the stream may not have been read to its end yet."""
    last = draft.state.incident(incident).last_try if incident is not None else None
    lost = max(draft.newest_step, last.taken_step if last else 0) - (action.resume.step if action.resume else 0)
    if incident is not None and lost > 0:
        draft.record(f.StepsLost(incident, lost))


def _see_ended(draft: Draft, action: StartAttempt) -> None:
    """Everything before a launch is confirmed, the kill too: an attempt whose exit was not read yet has ended all the same."""
    attempt = draft.attempt
    if attempt is None or attempt.is_over or attempt.attempt == action.attempt:
        return
    last_s = draft.live.last_step_s if draft.live.last_step_s is not None else draft.now_s
    reason = f"{attempt.stopping or 'killed'}; the next attempt was launched before its exit was read"
    draft.record(f.AttemptEnded(attempt.attempt, "killed", reason, draft.newest_step, last_s))
    draft.senses.end_attempt()


def drop_live_plan(draft: Draft, reason: str) -> None:
    """A change that is being written to an attempt is overtaken by what happens to that attempt."""
    plan = draft.state.plan
    if plan is not None and plan.is_live:
        draft.record(f.PlanDropped(f"overtaken before it was confirmed: {reason}"))
