"""The life of one attempt: launched, receipt, steps, checkpoints, its end, and what each of them means."""

from __future__ import annotations

from math import isfinite

from sentinel.detectors.crash import Failed, Finished, Stopped
from sentinel.engine.broken_job import judge_job
from sentinel.engine.condemning import condemn_refused
from sentinel.engine.decision import Decision
from sentinel.engine.engine_trouble import launch_again, word_of_engine
from sentinel.engine.finishing import finish
from sentinel.engine.giving_up import fail_run, finish_giving_up
from sentinel.engine.ladder import consider, take_up_again
from sentinel.engine.lapsing import on_lapsed_by_trainer
from sentinel.engine.late_blame import find_blame
from sentinel.engine.leaving import end_stopped
from sentinel.engine.live_settings import on_answer
from sentinel.engine.log_matches import died_of_logs
from sentinel.engine.preemption import as_the_policy_knows, outcome_of
from sentinel.engine.probation import judge_open_incidents, keep_at_stop
from sentinel.engine.proving import observe_settings
from sentinel.engine.refused_arguments import explain_refused_resume, go_on_without_refused
from sentinel.engine.relaunching import drop_live_plan, drop_needless_plan, relaunch
from sentinel.engine.retention import prune_next
from sentinel.engine.sources import DROPPED, LOST, on_numbers_missing, write_down
from sentinel.engine.unobserved import end_unobserved, end_unproven, is_unobserved
from sentinel.engine.unseen import on_unseen
from sentinel.model import facts as f
from sentinel.model.actions import CompareRecords, KillAttempt, PruneCheckpoint
from sentinel.model.attempts import Alive, AttemptView, Exited, ExitReport, NotStarted, Orphaned, ResumePoint, Unseen
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import CheckpointReading, StepReading, TrainerNote
from sentinel.model.state import REFUSED, Attempt
from sentinel.plan.overrides import for_relaunch
from sentinel.plan.rollback import choose_newest

REMARK_MAX = 1000  # characters of one, which the journal keeps


def launch_first_or_next(decision: Decision, why: str) -> None:
    """The first launch of a run, or the next after a stop: from the newest usable checkpoint, or where a recovery that the
    stop broke off was to go."""
    for incident in reversed(decision.state.open_incidents):
        if take_up_again(decision, incident):
            return
    choice = choose_newest(decision.state.checkpoints, decision.state.open_incidents)
    resume = ResumePoint(choice.checkpoint.step, choice.checkpoint.path, choice.checkpoint.digest) if choice.checkpoint else None
    overrides = for_relaunch(decision.state.overrides, choice.step, None)
    relaunch(decision, None, resume, overrides, 0.0, f"{why}: {choice.reason}" if decision.attempt else why)


def on_step(decision: Decision, reading: StepReading, findings: tuple[Finding, ...]) -> None:
    """The hot path: nothing is recorded for a healthy step of a run without open incidents."""
    attempt = decision.attempt
    if attempt is None or attempt.is_over or reading.attempt != attempt.attempt:
        return
    if attempt.first_step is None:
        decision.record(f.FirstStep(attempt.attempt, reading.step))
    applied = decision.state.applied
    if findings and applied is not None and applied.lies_behind(reading.attempt, reading.step):
        decision.live.past += findings  # until the stream has been read to its end
        findings = ()
    for finding in (*findings, *observe_settings(decision, attempt, reading)):
        consider(decision, finding)
    if decision.state.open_incidents and decision.state.plan is None and not attempt.stopping:
        judge_open_incidents(decision, decision.newest_step)


def on_note(decision: Decision, note: TrainerNote) -> None:
    """Event lines of the stream that mean something to the engine; the rest is evidence and stays in the stream."""
    attempt = decision.attempt
    if attempt is None or note.attempt != attempt.attempt:
        return
    if note.event == "checkpoint_committed":
        _on_save_reported(decision, attempt, note)
    elif note.event == "resumed_older":
        condemn_refused(decision, note)
    elif note.event == "remark" and isinstance(reason := note.data.get("reason"), str):
        write_down(decision, f"trainer: {reason[:REMARK_MAX]}")
    elif note.event in (LOST, DROPPED):
        on_numbers_missing(decision, note)
    elif note.event == "override_lapsed":
        on_lapsed_by_trainer(decision, note)
    elif note.event in ("override_applied", "override_refused"):
        for finding in on_answer(decision, note):
            consider(decision, finding)


def _on_save_reported(decision: Decision, attempt: Attempt, note: TrainerNote) -> None:
    """What a save cost: for a checkpoint already seen, recorded now; for one not yet seen, kept until it is. A save behind
    training costs what training stood still for it, not how long it took."""
    took_s = _seconds(note.data.get("seconds"))
    save_s = _seconds(note.data["blocked_s"]) if "blocked_s" in note.data else took_s
    if save_s <= 0:
        return
    decision.live.saved(note.step, save_s, took_s)
    known = next((c for c in decision.state.checkpoints if c.step == note.step and c.attempt == note.attempt), None)
    if known is not None and any(m.step == note.step and m.save_s == 0.0 for m in attempt.marks):
        decision.record(
            f.CheckpointCommitted(note.attempt, note.step, known.path, known.samples_end, known.digest, save_s, took_s)
        )


def _seconds(value: object) -> float:
    """0 for what is no time."""
    return float(value) if isinstance(value, (int, float)) and isfinite(value) and value > 0 else 0.0


def on_checkpoint(decision: Decision, reading: CheckpointReading) -> None:
    """A checkpoint counts when the current attempt made it, or it lies on the lineage the attempt came from."""
    attempt = decision.attempt
    if attempt is None or any(c.step == reading.step and c.digest == reading.digest for c in decision.state.checkpoints):
        return
    if any(isinstance(a, PruneCheckpoint) and a.digest == reading.digest for a in decision.state.pending.values()):
        return  # it is being deleted
    maker = reading.attempt or attempt.attempt  # a manifest that names no attempt: what lay above was moved aside at launch
    own = maker == attempt.attempt and reading.step > attempt.resumed_step
    if own or reading.step <= attempt.resumed_step:
        save_s, took_s = decision.live.saves_s.get(reading.step, (0.0, 0.0)) if own else (0.0, 0.0)
        seen = f.CheckpointCommitted(
            maker, reading.step, reading.path, reading.samples_end, reading.digest, save_s, took_s, reading.bytes
        )
        decision.record(seen)
        onset = _unrepaired_onset(decision, attempt) if own and decision.state.giving_up else None
        if onset is not None and reading.step >= onset:
            decision.record(
                f.CheckpointCondemned(reading.step, f"at or after step {onset}, the onset of what was never repaired")
            )
        if own:
            prune_next(decision)


def _unrepaired_onset(decision: Decision, attempt: Attempt) -> int | None:
    """Of what the attempt is being ended for, the first step whose checkpoint is not to be resumed from; None where it has none.
    What a playbook let go on before counts for nothing here: training went on with it."""
    since_s = attempt.stopping_s if attempt.stopping_s is not None else decision.now_s
    closed = (i for i in decision.state.incidents if i.state is IncidentState.EXHAUSTED and (i.closed_s or 0.0) >= since_s)
    return min((i.limit_step for i in closed if i.limit_step is not None), default=None)


def on_view(decision: Decision, view: AttemptView) -> None:
    attempt = decision.attempt
    if attempt is None or view.attempt != attempt.attempt or attempt.is_over:
        return
    match view:
        case Exited(report=report):
            on_exit(decision, report)
        case Orphaned(reason=reason, pids=pids) if decision.observes_only and pids:
            decision.note("launcher", f"the keeper of attempt {attempt.attempt} is gone ({reason}); observe only: left to run")
        case Orphaned(reason=reason):
            decision.note("launcher", f"the keeper of attempt {attempt.attempt} is gone ({reason}): its processes are ended")
            decision.decide(KillAttempt.of(attempt.attempt))
        case Unseen():
            on_unseen(decision, view)
        case NotStarted() | Alive():
            pass


def on_exit(decision: Decision, report: ExitReport) -> None:
    """The attempt is over: as wanted, finished, or broken. During a plan its end is the plan's business."""
    attempt, report = decision.attempt, report.of_ranks_below(decision.live.rank_end)
    assert attempt is not None
    trained = attempt.first_step is not None or decision.state.best_step > 0
    wanted = bool(attempt.stopping or decision.state.stop_by)
    ended = decision.detectors.exit(
        report, finished=decision.live.finished, stop_requested=wanted, now_s=decision.now_s, has_trained=trained,
        end_reason=decision.live.end_reason, is_blind="metrics" in decision.state.blind,
    )
    refused = word_of_engine(decision, ended, report)
    outcome = REFUSED if refused else outcome_of(ended)
    reason = ended.finding.reason if isinstance(ended, Failed) else ended.reason
    began_s = attempt.receipt_s if attempt.receipt_s is not None else decision.now_s
    last_s = decision.live.last_step_s if decision.live.last_step_s is not None else began_s
    decision.record(f.AttemptEnded(attempt.attempt, outcome, reason, decision.newest_step, last_s, report.ranks))
    find_blame(decision, attempt.attempt, report)
    if outcome in ("stopped", "preempted") and decision.state.plan is None and not decision.state.giving_up:
        keep_at_stop(decision)
    decision.detectors.end_attempt()
    drop_live_plan(decision, reason)
    drop_needless_plan(decision, reason, has_finished=isinstance(ended, Finished) and ended.is_shown)
    if decision.state.plan is not None:
        return None
    if decision.state.giving_up:
        return finish_giving_up(decision)
    if decision.state.hold_by and not decision.state.stop_by and not isinstance(ended, Finished):
        return decision.record(f.Held(f"held by {decision.state.hold_by}: {reason}"))
    if refused:
        return launch_again(decision, refused)
    match ended:
        case Finished() if is_unobserved(decision):
            return end_unobserved(decision, reason)
        case Finished() if _is_untrained(decision, attempt) and decision.state.settable is not None:
            return end_unobserved(decision, f"{reason}; no row of it was seen")
        case Finished() if _is_untrained(decision, attempt):
            return consider_untrained(decision, reason)
        case Finished(is_shown=False) if decision.state.status_lost or report.left_behind:
            return end_unproven(decision, reason)
        case Finished():
            return finish(decision)
        case Stopped():
            by = decision.state.stop_by or attempt.stopped_by or attempt.stopping
            return end_stopped(decision, f"stopped by {by}: {reason}")
        case Failed(finding=finding):
            return _on_death(decision, attempt, finding, report)


def _on_death(decision: Decision, attempt: Attempt, finding: Finding, report: ExitReport) -> None:
    if go_on_without_refused(decision, attempt):
        return
    reason = finding.reason
    finding = explain_refused_resume(decision, attempt, finding)
    finding = died_of_logs(decision, as_the_policy_knows(decision.policy, finding), report)
    consider(decision, judge_job(decision, finding))
    _nothing_follows(decision, reason)


def _is_untrained(decision: Decision, attempt: Attempt) -> bool:
    """Nothing was ever heard of it; behind a blind source that says nothing."""
    has_begun = decision.live.finished or attempt.receipt_s is not None or attempt.first_step is not None
    return not has_begun and "metrics" not in decision.state.blind


def consider_untrained(decision: Decision, reason: str) -> None:
    """Exit 0 without a receipt or a step, of a trainer that has written them before: the command did something else."""
    attempt = decision.attempt
    assert attempt is not None
    why = f"{reason}; it wrote no receipt and no step, so nothing was trained (the contract: sentinel/client/PROTOCOL.md)"
    consider(decision, Finding(Kind.BROKEN_JOB, "critical", attempt.attempt, None, 0, decision.now_s, why, retryable=False))
    _nothing_follows(decision, why)


def _nothing_follows(decision: Decision, reason: str) -> None:
    """A dead attempt that nothing will relaunch (no rule, observe only) is a failed run, said plainly."""
    state = decision.state
    waits = any(i.awaits_approval for i in state.open_incidents)
    waits = waits or any(isinstance(action, CompareRecords) for action in state.pending.values())
    if state.plan is not None or state.ended or state.held or state.giving_up or waits:
        return
    if state.paused:
        decision.record(f.Held(f"paused by {state.paused}, and the attempt has ended: {reason}"))
    else:
        fail_run(decision, f"{reason}; nothing is to be relaunched")
