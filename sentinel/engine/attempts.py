"""The life of one attempt: launched, receipt, steps, checkpoints, its end, and what each of them means."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from sentinel.detectors.crash import Failed, Finished, Stopped
from sentinel.engine.decision import Draft
from sentinel.engine.giving_up import fail_run, finish_giving_up
from sentinel.engine.judging import judge_open_incidents, settle_at_finish
from sentinel.engine.ladder import consider, take_up_again
from sentinel.engine.lapsing import on_lapsed_by_trainer
from sentinel.engine.live_changes import mismatch, on_answer
from sentinel.engine.passing_over import heed_refusal
from sentinel.engine.relaunching import drop_live_plan, relaunch
from sentinel.engine.retaining import prune_next
from sentinel.model import facts as f
from sentinel.model.actions import CompareRecords, KillAttempt, PruneCheckpoint
from sentinel.model.attempts import Alive, AttemptView, Exited, ExitReport, NotStarted, Orphaned, ResumePoint, Unseen
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.readings import CheckpointReading, Receipt, StepReading, TrainerNote
from sentinel.model.state import Attempt
from sentinel.plan.overrides import for_relaunch, judge_receipt
from sentinel.plan.rollback import choose_newest
from sentinel.policy.match import NoMatch, match_rule


def launch_first_or_next(draft: Draft, why: str) -> None:
    """The first launch of a run, or the next after a stop: from the newest usable checkpoint, or where a recovery that the
    stop broke off was to go."""
    for incident in reversed(draft.state.open_incidents):
        if take_up_again(draft, incident):
            return
    choice = choose_newest(draft.state.checkpoints, draft.state.open_incidents)
    resume = ResumePoint(choice.checkpoint.step, choice.checkpoint.path, choice.checkpoint.digest) if choice.checkpoint else None
    overrides = for_relaunch(draft.state.overrides, choice.step, None)
    relaunch(draft, None, resume, overrides, 0.0, f"{why}: {choice.reason}" if draft.attempt else why)


def on_receipt(draft: Draft, receipt: Receipt) -> None:
    """The trainer's proof is compared with what was asked; a mismatch is an incident, not a log line."""
    attempt = draft.attempt
    if attempt is None or receipt.attempt != attempt.attempt or attempt.receipt_s is not None:
        return
    deterministic = receipt.effective.get("deterministic") is True
    draft.record(f.ReceiptSeen(receipt.attempt, receipt.resume_step, receipt.world_size, deterministic))
    asked = attempt.resume.step if attempt.resume else 0
    if receipt.resume_step < asked:
        draft.note("resume", f"resumed at step {receipt.resume_step}, not {asked}: a newer checkpoint was passed over")
        _lost_more(draft, attempt, asked - receipt.resume_step)
    wrong = judge_receipt(attempt.overrides, attempt.resume, receipt)
    if wrong:
        consider(draft, mismatch(draft, receipt.resume_step, "; ".join(wrong)))


def _lost_more(draft: Draft, attempt: Attempt, steps: int) -> None:
    """The trainer went back further than asked: that, too, is the cost of the incident that launched this attempt."""
    for incident in draft.state.open_incidents:
        if incident.last_try is not None and incident.last_try.attempt == attempt.attempt:
            draft.record(f.StepsLost(incident.id, steps))


def on_step(draft: Draft, reading: StepReading, findings: tuple[Finding, ...]) -> None:
    """The hot path: nothing is recorded for a healthy step of a run without open incidents."""
    attempt = draft.attempt
    if attempt is None or attempt.is_over or reading.attempt != attempt.attempt:
        return
    if attempt.first_step is None:
        draft.record(f.FirstStep(attempt.attempt, reading.step))
    for finding in findings:
        consider(draft, finding)
    if draft.state.open_incidents and draft.state.plan is None and not attempt.stopping:
        judge_open_incidents(draft, draft.newest_step)


def on_note(draft: Draft, note: TrainerNote) -> None:
    """Event lines of the stream that mean something to the engine; the rest is evidence and stays in the stream."""
    attempt = draft.attempt
    if attempt is None or note.attempt != attempt.attempt:
        return
    if note.event == "checkpoint_committed":
        _save_told(draft, attempt, note)
    elif note.event == "resumed_older":
        heed_refusal(draft, note)
    elif note.event == "override_lapsed":
        on_lapsed_by_trainer(draft, note)
    elif note.event in ("override_applied", "override_refused"):
        for finding in on_answer(draft, note):
            consider(draft, finding)


def _save_told(draft: Draft, attempt: Attempt, note: TrainerNote) -> None:
    """What a save cost: for a checkpoint already seen, told now; for one not yet seen, kept until it is. A save behind training
    costs what training stood still for it, not how long it took."""
    save_s = note.data.get("blocked_s", note.data.get("seconds"))
    if not isinstance(save_s, (int, float)) or not isfinite(save_s) or save_s <= 0:
        return
    draft.live.saved(note.step, float(save_s))
    known = next((c for c in draft.state.checkpoints if c.step == note.step and c.attempt == note.attempt), None)
    if known is not None and any(m.step == note.step and m.save_s == 0.0 for m in attempt.marks):
        draft.record(f.CheckpointCommitted(note.attempt, note.step, known.path, known.samples_end, known.digest, float(save_s)))


def on_checkpoint(draft: Draft, reading: CheckpointReading) -> None:
    """A checkpoint counts when the current attempt made it, or it lies on the lineage the attempt came from."""
    attempt = draft.attempt
    if attempt is None or any(c.step == reading.step and c.digest == reading.digest for c in draft.state.checkpoints):
        return
    if any(isinstance(a, PruneCheckpoint) and a.digest == reading.digest for a in draft.state.pending.values()):
        return  # it is being deleted
    maker = reading.attempt or attempt.attempt  # a manifest that names no attempt: what lay above was moved aside at launch
    own = maker == attempt.attempt and reading.step > attempt.resumed_step
    if own or reading.step <= attempt.resumed_step:
        save_s = draft.live.saves_s.get(reading.step, 0.0) if own else 0.0
        seen = f.CheckpointCommitted(maker, reading.step, reading.path, reading.samples_end, reading.digest, save_s)
        draft.record(seen)
        given_up = [i for i in draft.state.incidents if i.is_numeric and i.state is IncidentState.EXHAUSTED]
        onset = max(given_up, key=lambda i: i.closed_s or 0.0).onset_step if given_up else None  # the one it is ended for
        if own and draft.state.giving_up and onset is not None and reading.step >= onset:
            draft.record(f.CheckpointCondemned(reading.step, f"at or after step {onset}, the onset of what was never repaired"))
        if own:
            prune_next(draft)


def on_view(draft: Draft, view: AttemptView) -> None:
    attempt = draft.attempt
    if attempt is None or view.attempt != attempt.attempt or attempt.is_over:
        return
    match view:
        case Exited(report=report):
            on_exit(draft, report)
        case Orphaned(reason=reason, pids=pids) if draft.observes_only and pids:
            draft.note("launcher", f"the keeper of attempt {attempt.attempt} is gone ({reason}); observe only: left to run")
        case Orphaned(reason=reason):
            draft.note("launcher", f"the keeper of attempt {attempt.attempt} is gone ({reason}): its processes are ended")
            draft.decide(KillAttempt(f"kill/{attempt.attempt}", attempt.attempt))
        case NotStarted() | Alive() | Unseen():
            pass


def on_exit(draft: Draft, report: ExitReport) -> None:
    """The attempt is over: as wanted, finished, or broken. During a plan its end is the plan's business."""
    attempt = draft.attempt
    assert attempt is not None
    trained = attempt.first_step is not None or draft.state.best_step > 0
    wanted = bool(attempt.stopping)
    ended = draft.senses.exit(report, finished=draft.live.finished, stop_requested=wanted, now_s=draft.now_s, has_trained=trained)
    outcome = {Finished: "finished", Stopped: "stopped", Failed: "crashed"}[type(ended)]
    reason = ended.finding.reason if isinstance(ended, Failed) else ended.reason
    began_s = attempt.receipt_s if attempt.receipt_s is not None else draft.now_s
    last_s = draft.live.last_step_s if draft.live.last_step_s is not None else began_s
    draft.record(f.AttemptEnded(attempt.attempt, outcome, reason, draft.newest_step, last_s, report.ranks))
    draft.senses.end_attempt()
    drop_live_plan(draft, reason)
    if draft.state.plan is not None:
        return None
    if draft.state.giving_up:
        return finish_giving_up(draft)
    if draft.state.hold_by and not draft.state.stop_by and not isinstance(ended, Finished):
        return draft.record(f.Held(f"held by {draft.state.hold_by}: {reason}"))
    match ended:
        case Finished() if _is_untrained(draft, attempt):
            return consider_untrained(draft, reason)
        case Finished():
            return finish(draft)
        case Stopped():
            by = draft.state.stop_by or attempt.stopping.removeprefix("stopped by ") or "something outside sentinel"
            return draft.record(f.RunEnded("stopped", f"stopped by {by}: {reason}"))
        case Failed(finding=finding):
            consider(draft, judge_job(draft, finding))
            return _nothing_follows(draft, reason)


def judge_job(draft: Draft, finding: Finding) -> Finding:
    """The finding of a death, or of a broken job: one that says so itself, or the last of too many that came before any step.
    Then the crash that the earlier deaths belong to is closed; it was never about anything else."""
    if not finding.retryable:
        return replace(finding, kind=Kind.BROKEN_JOB)
    deaths = _deaths_before_a_step(draft)
    match = match_rule(draft.policy, Kind.BROKEN_JOB)
    if finding.kind is not Kind.CRASH or deaths < draft.policy.spec.budget.without_progress or isinstance(match, NoMatch):
        return finding
    if match.rule.playbook is None or match.rule.labels.severity == "info":
        return finding  # nobody would be called: the crash's own playbook does
    reason = f"broken job: {deaths} launches in a row died before their first step, the last so: {finding.reason}"
    for incident in draft.state.open_incidents:
        if not incident.is_numeric:
            if incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
                draft.record(f.RungJudged(incident.id, Outcome.FAILED, finding.reason))
            draft.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, reason))
    return replace(finding, kind=Kind.BROKEN_JOB, severity=match.rule.labels.severity, reason=reason, retryable=False)


def _deaths_before_a_step(draft: Draft) -> int:
    """Launches in a row that died by themselves and were never seen to make a step, since a person last started the run."""
    count = 0
    for attempt in reversed(draft.state.attempts):
        if attempt.outcome != "crashed" or attempt.first_step is not None or "metrics" in draft.state.blind:
            break
        count += 1
    return min(count, draft.state.without_progress)


def _is_untrained(draft: Draft, attempt: Attempt) -> bool:
    """Nothing was ever heard of it; behind a blind source that says nothing."""
    heard = draft.live.finished or attempt.receipt_s is not None or attempt.first_step is not None
    return not heard and "metrics" not in draft.state.blind


def consider_untrained(draft: Draft, reason: str) -> None:
    """Exit 0 without a receipt, a step or an end line is no finished training: the command did something else."""
    attempt = draft.attempt
    assert attempt is not None
    why = f"{reason}; it wrote no receipt and no step, so nothing was trained (the contract: sentinel/client/PROTOCOL.md)"
    consider(draft, Finding(Kind.BROKEN_JOB, "critical", attempt.attempt, None, 0, draft.now_s, why, retryable=False))
    _nothing_follows(draft, why)


def finish(draft: Draft) -> None:
    if settle_at_finish(draft):
        draft.record(f.RunEnded("finished", f"the trainer finished at step {draft.newest_step}"))
    elif draft.state.paused and draft.state.plan is None and not draft.state.giving_up:
        draft.record(f.Held(f"paused by {draft.state.paused}, and the trainer finished with an incident open"))


def _nothing_follows(draft: Draft, reason: str) -> None:
    """A dead attempt that nothing will relaunch (no rule, observe only) is a failed run, said plainly."""
    state = draft.state
    waits = any(i.awaits_approval for i in state.open_incidents)
    waits = waits or any(isinstance(action, CompareRecords) for action in state.pending.values())
    if state.plan is not None or state.ended or state.held or state.giving_up or waits:
        return
    if state.paused:
        draft.record(f.Held(f"paused by {state.paused}, and the attempt has ended: {reason}"))
    else:
        fail_run(draft, f"{reason}; nothing is to be relaunched")
