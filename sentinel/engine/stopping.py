"""Stopping on request: first by asking the trainer, then by SIGTERM to its ranks, then by SIGKILL, each after a deadline. While
an onset is unresolved there is no SIGTERM: trainers answer it with a checkpoint.

torchrun kills 30 s after a SIGTERM, too soon for a real checkpoint (PROTOCOL "Liveness"), so the request comes first.
"""

from __future__ import annotations

from dataclasses import replace

from sentinel.engine import engine_trouble, unseen
from sentinel.engine.decision import Decision
from sentinel.engine.giving_up import finish_giving_up
from sentinel.engine.leaving import end_stopped, is_taken_away
from sentinel.engine.sample_attribution import break_off
from sentinel.model import facts as f
from sentinel.model.actions import CheckNodes, FindCheckpoints, KillAttempt, Request, RequestStop, SignalRanks, VerifyCheckpoint
from sentinel.model.amounts import time_words
from sentinel.model.incidents import IncidentState

ONLY_READ = (VerifyCheckpoint, FindCheckpoints, CheckNodes)  # a stop does not wait for them: a filesystem, a node may hang
ANSWER_S = 20.0  # a request without any sign of a checkpoint or an end after this long goes unanswered
TERM_S = 10.0  # and this long after SIGTERM nobody is listening
STEPS_TO_ANSWER = 3.0  # step times: a request is noticed between two steps, so a slow trainer has longer


def on_stop_wanted(decision: Decision, by: str, resumes: bool = False) -> None:
    """The first request asks the trainer; a second one (Ctrl-C again) does not wait any longer. `resumes`: as in `StopWanted`. A
    person who stops a run that is being suspended decides its end, and the trainer keeps the time it was given. A SIGTERM once
    the deadline has passed is no person's: whoever set the deadline ends the job with it."""
    if decision.state.stop_by and resumes:
        return decision.note("stop", f"asked by {by} too; it is being stopped by {decision.state.stop_by}")
    if decision.state.stop_by and decision.state.stop_resumes and is_taken_away(decision, by):
        return decision.note("stop", f"{by} after the deadline: the machine is being taken away, and the next start goes on")
    if decision.state.stop_by and decision.state.stop_resumes:
        return decision.record(f.StopAsked(by))
    if decision.state.stop_by and unseen.leave(decision, by):
        return None
    if decision.state.stop_by:
        if decision.is_alive and decision.attempt is not None:
            decision.note("stop", f"asked again by {by}: the attempt is killed")
            decision.decide(KillAttempt.of(decision.attempt.attempt))
        elif decision.state.plan is None and not decision.state.ended:
            end_stopped(decision, f"stopped by {by}")
        return None
    decision.record(f.StopAsked(by, resumes))
    if decision.state.giving_up and decision.is_alive:
        return finish_giving_up(decision)  # it is being killed already, and must not save what was never repaired
    plan = decision.state.plan
    if plan is not None:
        if break_off(decision, f"stopped by {by}"):
            return None  # its processes are ended first
        waits = plan.actions[plan.next]
        not_before = getattr(waits, "not_before_s", 0.0)
        if engine_trouble.break_off(decision, f"stopped by {by}"):
            return None  # whether it has come to be started is asked first
        if not_before > decision.now_s and decision.attempt is not None:
            decision.record(f.PlanDropped(f"stopped by {by} while waiting to relaunch"))
            decision.record(
                f.AttemptEnded(decision.attempt.attempt, "stopped", "never started", decision.newest_step, decision.now_s)
            )
            end_stopped(decision, f"stopped by {by}")
        elif isinstance(waits, ONLY_READ) and not decision.is_alive:
            decision.record(f.ActionAbandoned(waits.key, f"stopped by {by}", withdrawn=True))
            decision.record(f.PlanDropped(f"stopped by {by} during a recovery"))
            end_stopped(decision, f"stopped by {by} during a recovery")
        return None  # otherwise the action under way is finished first; `action_results` drops the plan after it
    if decision.is_alive:
        ask_to_stop(decision)
    elif not decision.state.ended:
        end_stopped(decision, f"stopped by {by}")
    return None


def ask_to_stop(decision: Decision) -> None:
    """Never a checkpoint after an unresolved onset: then the trainer is asked to stop at once."""
    attempt = decision.attempt
    if attempt is None or attempt.is_over:
        return
    request: Request = "stop_now" if _is_unresolved(decision) else "stop_after_checkpoint"
    by = f"stopped by {decision.state.stop_by}" if decision.state.stop_by else f"held by {decision.state.hold_by}"
    decision.record(f.AttemptStopping(attempt.attempt, by))
    overrides = replace(attempt.overrides, id=f"ov-{attempt.attempt}.stop")
    decision.decide(RequestStop(f"stop/{attempt.attempt}", attempt.attempt, overrides, request))


def _is_unresolved(decision: Decision) -> bool:
    return any(i.is_numeric and i.state is IncidentState.OPEN for i in decision.state.incidents)


def _answer_s(decision: Decision, step_s: float) -> float:
    """How long the request waits for an answer. A trainer under a profile that says how it is asked has what that says; one that
    cannot be asked is not waited for, and neither is one that would have to end without saving, which no signal says."""
    asked_s = decision.state.stop_answer_s
    if asked_s is None:
        return max(ANSWER_S, step_s)
    return 0.0 if asked_s == 0.0 or _is_unresolved(decision) else max(asked_s, step_s)


def on_tick(decision: Decision) -> None:
    """On every tick while a stop is under way: the next harder word once a deadline has passed."""
    attempt = decision.attempt
    wanted = decision.state.stop_by or decision.state.hold_by
    if not wanted or attempt is None or attempt.is_over or decision.state.plan or decision.state.ended:
        return
    if attempt.stopping_s is None:
        ask_to_stop(decision)  # it waited for a live change, and that was overtaken
        return
    step_s = STEPS_TO_ANSWER * (decision.detectors.step_time_s or 0.0)
    answer_s = _answer_s(decision, step_s)
    checkpoint_s = decision.policy.spec.detectors.hang.phases.get("checkpoint", 600.0) if decision.live.is_checkpointing else 0.0
    asked_s = attempt.stopping_s if attempt.signalled_s is None else attempt.signalled_s
    waited = decision.now_s - max(asked_s, decision.live.saving_s or 0.0)
    kill = KillAttempt.of(attempt.attempt)
    if attempt.signalled_s is None and waited > answer_s + checkpoint_s:
        if not _is_unresolved(decision):
            decision.decide(SignalRanks(f"signal/{attempt.attempt}", attempt.attempt))
        elif kill.key not in decision.state.pending:  # a SIGTERM would make the trainer save what may be damaged
            decision.note(
                "stop", f"no answer to stop_now after {time_words(waited)}, and an onset is unresolved: killed, not terminated"
            )
            decision.decide(kill)
    elif (
        attempt.signalled_s is not None and waited > max(TERM_S, step_s) + checkpoint_s and kill.key not in decision.state.pending
    ):
        decision.note("stop", f"no answer to SIGTERM after {time_words(waited)}: the attempt is killed")
        decision.decide(kill)
