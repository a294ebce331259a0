"""Leaving a machine that is about to be taken away: a checkpoint in time, and the next start goes on as the same run. Here it is
decided when that has to begin; how it is done is a stop like any other (`stopping`)."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.amounts import time_words
from sentinel.model.state import RunState
from sentinel.plan.margin import Margin, judge_margin
from sentinel.policy.schema import Policy

ABOUT = "deadline"  # of notes
SIGTERM = "SIGTERM"  # as `StopWanted` names it


def margin_of(state: RunState, policy: Policy, step_s: float | None) -> Margin:
    """How long before its deadline this run has to begin to leave."""
    return judge_margin(state.attempts, policy.spec.run.deadline_margin_s, step_s)


def why_due(decision: Decision) -> str:
    """Who wants the run to leave now, and why it is time; empty while it is not. Where sentinel only observes, a deadline changes
    nothing: whoever wants a stop asks for one."""
    state = decision.state
    if state.deadline_s is None or state.stop_by or state.ended or decision.is_observed_run:
        return ""
    margin = margin_of(state, decision.policy, decision.detectors.step_time_s)
    left_s = state.deadline_s - decision.now_s
    if left_s > margin.seconds:
        return ""
    return f"the deadline ({state.deadline_by}), {time_words(max(0.0, left_s))} before it: {margin.reason}"


def is_taken_away(decision: Decision, by: str) -> bool:
    """A SIGTERM at a deadline that has passed: so schedulers end what has not left in time."""
    return by == SIGTERM and decision.state.deadline_s is not None and decision.now_s >= decision.state.deadline_s


def end_stopped(decision: Decision, reason: str) -> None:
    """The end of a run that was asked to stop. A hold that was under way is kept for who goes on with it. Where the supervisor
    that was asked died meanwhile, the attempt still knows what its end was to mean."""
    state, attempt = decision.state, decision.attempt
    resumes = state.stop_resumes or (not state.stop_by and attempt is not None and attempt.stop_resumes)
    if not resumes:
        return decision.record(f.RunEnded("stopped", reason))
    if decision.state.hold_by and not decision.state.held:
        decision.record(f.Held(f"held by {decision.state.hold_by}"))
    return decision.record(f.RunEnded("suspended", reason))
