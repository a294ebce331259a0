"""The checkpoint that a plan goes back to is damaged or cannot be read, or another is found: the same rung from there."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.giving_up import unable
from sentinel.engine.ladder import treatment_now
from sentinel.engine.paging import page
from sentinel.engine.relaunching import proceed, relaunch
from sentinel.model import facts as f
from sentinel.model.actions import InspectSamples, StartAttempt, VerifyCheckpoint
from sentinel.model.attempts import Evidence, ResumePoint
from sentinel.model.state import PlanInProgress
from sentinel.plan.remedy import InspectionPlan
from sentinel.plan.rollback import choose_newest

NOT_FROM_SCRATCH = (
    "sentinel does not start from scratch for that: restore one and start the run again, or begin a new run directory"
)


def pass_over(decision: Decision, action: VerifyCheckpoint, damage: str, evidence: Evidence) -> None:
    decision.record(f.CheckpointCondemned(action.step, damage, damaged=True, evidence=evidence))
    _again_without(decision, action, damage)


def pass_over_unread(decision: Decision, action: VerifyCheckpoint, reason: str) -> None:
    """Nobody knows whether it is whole: a person is told, and the recovery does not wait for the filesystem."""
    unread = f"the checkpoint of step {action.step} could not be read: {reason}"
    decision.record(f.CheckpointCondemned(action.step, unread, damaged=True, evidence="unread"))
    _again_without(decision, action, unread)
    if decision.state.plan is not None and decision.state.incidents:
        page(decision, decision.state.incidents[-1].id, "warning", unread, "the next older checkpoint is taken")


def _again_without(decision: Decision, action: VerifyCheckpoint, damage: str) -> None:
    """The checkpoint is damaged: the same rung again, from the next older one. Never from scratch because none is whole: that
    would throw the run away, and a person may still mend or restore one."""
    plan = decision.state.plan
    if plan is None:
        return None
    start = next(a for a in plan.actions if isinstance(a, StartAttempt))
    resume, reason = _next_older(decision, plan.incident, action.step, start.overrides.data_seed)
    if resume is None:
        none_left = f"no checkpoint is left to go back to, the last one is not whole ({damage}); {NOT_FROM_SCRATCH}"
        return unable(decision, action, none_left)
    is_unread = any(c.step == action.step and c.evidence == "unread" for c in decision.state.checkpoints)
    why = "cannot be read in time" if is_unread else "is damaged"
    return _relaunch_instead(decision, plan, resume, reason, f"the checkpoint of step {action.step} {why}")


def choose_again(decision: Decision, plan: PlanInProgress) -> None:
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
