"""The trainer's receipt, held against what was asked of it: where it resumed, and which settings are in force."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.ladder import consider
from sentinel.engine.live_settings import mismatch
from sentinel.engine.proving import begin_observing, may_count_from_zero
from sentinel.model import facts as f
from sentinel.model.readings import Receipt
from sentinel.model.state import Attempt
from sentinel.plan.overrides import begins_anew, judge_receipt
from sentinel.plan.proving import grade_settings


def on_receipt(decision: Decision, receipt: Receipt) -> None:
    """The trainer's proof is compared with what was asked; a mismatch is an incident, not a log line."""
    decision.live.receipt(receipt)
    attempt = decision.attempt
    if attempt is None or receipt.attempt != attempt.attempt:
        return
    begin_observing(decision, receipt)
    if attempt.receipt_s is not None:
        return
    deterministic = receipt.effective.get("deterministic") is True
    proofs = grade_settings(attempt.overrides, receipt.effective, receipt.overrides)
    resumed, ranks = receipt.resume_step, receipt.world_size
    seen = f.ReceiptSeen(receipt.attempt, resumed, ranks, deterministic, proofs, receipt.capabilities, receipt.gpus)
    decision.record(seen)
    asked = attempt.resume.step if attempt.resume else 0
    if receipt.resume_step < asked:
        _lost_more(decision, attempt, asked - receipt.resume_step)
        if not begins_anew(attempt.resume, receipt):
            _note_older(decision, receipt, asked)
    if receipt.adopted and receipt.resume_step > asked:
        decision.note("resume", f"the trainer goes on from its own checkpoint of step {receipt.resume_step}, as its program says")
    wrong = judge_receipt(attempt.overrides, attempt.resume, receipt)
    if wrong:
        consider(decision, mismatch(decision, receipt.resume_step, "; ".join(wrong)))


def _note_older(decision: Decision, receipt: Receipt, asked: int) -> None:
    step = receipt.resume_step
    if receipt.profile is not None:  # nobody says where it resumed; its first row shows a number
        why = "it went on from an older checkpoint, or its numbers do not count the steps of the run"
        if may_count_from_zero(decision, receipt):
            why = f"{why}; if it calls its first step 0, the profile has to say so (metrics: {{first_step: 0}})"
        decision.note("resume", f"its first row follows step {step}, and it was to go on from step {asked}: {why}")
        return
    used = next((c for c in decision.state.checkpoints if c.step == step), None)
    advice = ""
    if used is not None and not used.verified:
        advice = f"; its numbers were not looked at: `sentinel checkpoints verify {step} RUN_DIR` does that"
    decision.note("resume", f"resumed at step {step}, not {asked}: a newer checkpoint was passed over{advice}")


def _lost_more(decision: Decision, attempt: Attempt, steps: int) -> None:
    """The trainer went back further than asked: that, too, is the cost of the incident that launched this attempt."""
    for incident in decision.state.open_incidents:
        if incident.last_try is not None and incident.last_try.attempt == attempt.attempt:
            decision.record(f.StepsLost(incident.id, steps))
