"""Settings changed while the trainer runs: the request, the trainer's answer, and what it means when none comes.

Writing overrides.json proves nothing. The answer (`override_applied`, `override_refused`) is compared with the request as a
receipt is; a difference, a refusal of what a remedy asked for, or no answer at all is an incident. Where a person asked, a
refusal is told to them and changes nothing else: the run goes on as it was.
"""

from __future__ import annotations

from dataclasses import replace

from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.actions import Action, WriteOverrides
from sentinel.model.amounts import time_words
from sentinel.model.attempts import PERSON, ChangePurpose, SettingsInForce
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import TrainerNote
from sentinel.plan.build import build_live_change
from sentinel.plan.decay import left_to_trainer
from sentinel.plan.overrides import done_once_at, for_relaunch, judge_effective
from sentinel.plan.proving import grade_settings

ANSWER_S = 60.0  # with both gone by, a trainer that trains on has not heard: it looks for a change once a step
ANSWER_STEPS = 20


def write_live(
    decision: Decision,
    incident: int | None,
    name: str,
    overrides: SettingsInForce,
    purpose: ChangePurpose = "remedy",
    more: tuple[Action, ...] = (),
    writes: bool = True,
) -> None:
    """Ask the living attempt for other settings. `name` makes the request's id, which the answer repeats. `more`: what a rung
    does before that. `writes`: whether there are settings to ask for."""
    attempt = decision.attempt
    assert attempt is not None
    named = done_once_at(replace(overrides, id=f"ov-{attempt.attempt}.{name}"), decision.newest_step)
    before = decision.state.overrides
    actions = build_live_change(attempt.attempt, named, decision.newest_step, before, purpose, more, writes)
    decision.record(f.PlanAdopted(incident, actions))
    plan = decision.state.plan
    assert plan is not None
    decision.decide(plan.actions[plan.next])


def answered_write(decision: Decision, note: TrainerNote) -> str | None:
    """The key of a write that the trainer answers before its own success was heard; then it has succeeded."""
    if note.event not in ("override_applied", "override_refused"):
        return None
    found = (a for a in decision.state.pending.values() if isinstance(a, WriteOverrides))
    return next((a.key for a in found if a.attempt == note.attempt and a.overrides.id == note.data.get("id")), None)


def on_answer(decision: Decision, note: TrainerNote) -> tuple[Finding, ...]:
    """`override_applied` or `override_refused` with the id asked for: what is wrong with it. A file that the trainer could not
    read at all it refuses without an id: that is an answer to the change it has not answered yet."""
    attempt = decision.attempt
    if attempt is None:
        return ()
    asked, answered_id = attempt.overrides, note.data.get("id")
    is_refusal = note.event == "override_refused"
    is_waiting = attempt.written_s is not None and attempt.answered != asked.id
    if answered_id != asked.id and not (is_refusal and answered_id is None and is_waiting):
        return ()
    reason = str(note.data.get("reason", "no reason given"))
    if attempt.written_s is None:  # the settings of the launch: the receipt has answered for them
        return (mismatch(decision, note.step, f"override refused: {reason}"),) if is_refusal else ()
    keys = note.data.get("keys") if is_refusal else ()
    own = tuple(key for key, owner in asked.owners if owner == PERSON)
    if is_refusal and attempt.purpose == "person":
        named = keys if isinstance(keys, list) else []
        lost = tuple(key for key in own if key in named)
        whole = not named  # an answer that names no keys: nothing of it is in force
        decision.record(f.OverridesAnswered(attempt.attempt, asked.id, note.step, lost, whole))
        decision.note("wish", f"the trainer refused {', '.join(lost) or 'the change'}: {reason}")
        return ()
    if is_refusal and is_waiting and attempt.purpose == "lapse":
        leave_to_trainer(decision, note.step, f"refused by the trainer: {reason}")
        return ()
    found = note.data.get("effective")
    effective = found if isinstance(found, dict) else {}
    in_force = for_relaunch(asked, note.step, None)  # less what has lapsed by then
    if is_waiting:
        proofs = () if is_refusal else grade_settings(in_force, effective, {})
        decision.record(f.OverridesAnswered(attempt.attempt, asked.id, note.step, proofs=proofs))
    if is_refusal:
        return (mismatch(decision, note.step, f"override refused: {reason}"),)
    wrong = judge_effective(in_force, effective)
    return (mismatch(decision, note.step, "; ".join(wrong)),) if wrong else ()


def judge_unanswered(decision: Decision) -> tuple[Finding, ...]:
    """On every tick: a change that was written, trained past, and never answered."""
    attempt = decision.attempt
    if attempt is None or attempt.is_over or attempt.stopping or attempt.written_s is None:
        return ()
    if attempt.answered == attempt.overrides.id or "metrics" in decision.state.blind:
        return ()
    waited_s, steps = decision.now_s - attempt.written_s, decision.newest_step - attempt.written_step
    if waited_s <= ANSWER_S or steps <= ANSWER_STEPS:
        return ()
    asked = f"settings {attempt.overrides.id} were written at step {attempt.written_step}"
    if attempt.purpose == "lapse":
        leave_to_trainer(decision, decision.newest_step, f"{asked} and never answered")
        return ()
    ago = f"{steps} steps and {time_words(waited_s)} ago"
    return (mismatch(decision, attempt.written_step, f"{asked} and never answered, {ago}"),)


def leave_to_trainer(decision: Decision, step: int, why: str) -> None:
    """The trainer does not take a setting back, or hold it longer, when asked. The run does without: what was before still holds,
    until the trainer's own `until`. No incident: nothing that a remedy needs is missing."""
    attempt, lapse = decision.attempt, decision.state.lapse
    assert attempt is not None
    decision.record(f.OverridesAnswered(attempt.attempt, attempt.overrides.id, step, whole=True))
    now = decision.state.overrides
    keys = lapse.keys if lapse is not None else tuple(found.key for found in now.decay)
    reason = f"{' and '.join(keys)}: {why}; left to the trainer's own until"
    decision.record(f.LapseJudged(keys, "refused", reason, left_to_trainer(now, keys)))


def mismatch(decision: Decision, step: int, reason: str) -> Finding:
    attempt = decision.attempt
    assert attempt is not None
    words = f"the trainer does not run as asked: {reason}"
    return Finding(Kind.OVERRIDE_MISMATCH, "critical", attempt.attempt, None, step, decision.now_s, words)
