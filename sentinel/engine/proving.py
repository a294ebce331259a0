"""Watching whether the settings of an attempt are in force: what its stream shows, beside what its trainer says.

Nothing here believes a receipt. Steps that train on samples which were to be left out are an incident at once, whatever was read
back; so is a learning rate that goes on as it was. What the stream shows to be in force is recorded as observed, where it was not
read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentinel.engine.decision import Decision
from sentinel.engine.live_settings import mismatch
from sentinel.model import facts as f
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Finding, Kind
from sentinel.model.proof import PROVEN, Proof, grade_of
from sentinel.model.readings import Receipt, StepReading
from sentinel.model.state import Attempt
from sentinel.plan.overrides import for_relaunch, ranges_of
from sentinel.plan.proving import (
    LEARNING_RATE,
    ROWS_TO_TELL,
    SKIP,
    RatesBefore,
    ShownRate,
    compare_counts,
    compare_rates,
    counts_of,
    first_met,
    passed_over,
    size_within,
    why_begun_elsewhere,
)
from sentinel.plan.skip import merge

HISTORY_ROWS = 2


def begin_observing(decision: Decision, receipt: Receipt) -> None:
    """Where the attempt goes on, and what the learning rate was before."""
    decision.live.samples_end = receipt.cursor
    decision.live.samples_show = not receipt.samples_from_steps
    is_computed = receipt.profile is not None  # from the first rows
    decision.live.spare_samples = 1 if may_count_from_zero(decision, receipt) else 0
    decision.live.claimed = None if is_computed else receipt.resume_step
    decision.live.first_steps.clear()
    decision.live.announced_skip = ranges_of(receipt.overrides.get(SKIP))
    last = receipt.history[-1] if receipt.history else None
    decision.live.counted = counts_of(last) if last is not None and last.step == receipt.resume_step else None
    decision.live.rates = _rates_before(decision, receipt.history)


def may_count_from_zero(decision: Decision, receipt: Receipt) -> bool:
    """Whether the first row behind a resume has the number of the checkpoint itself: of a trainer that calls its first step 0,
    which its profile does not say; or of one that saves before it trains the step. Its samples are reckoned from that number."""
    attempt = decision.attempt
    asked = attempt.resume.step if attempt is not None and attempt.resume is not None else 0
    return receipt.profile is not None and 0 < receipt.resume_step == asked - 1


def _rates_before(decision: Decision, history: Sequence[StepReading]) -> RatesBefore | None:
    """The last two rates that the stream holds, and the factor under which they ran; None unless that was proven and held for
    both. A trainer may show its rate in every tenth row only."""
    rows = [row for row in history if "lr" in row.metrics][-HISTORY_ROWS:]
    factors = [_factor_at(decision, row) for row in rows]
    if len(rows) < HISTORY_ROWS or factors[0] is None or factors[0] != factors[1]:
        return None
    older, newer = (ShownRate(row.step, row.metrics["lr"]) for row in rows)
    return RatesBefore(older, newer, factors[0])


def _factor_at(decision: Decision, row: StepReading) -> float | None:
    """Of a trainer under a profile, the argument that its attempt was launched with: nothing lapses while it runs."""
    attempt = next((a for a in decision.state.attempts if a.attempt == row.attempt), None)
    if attempt is None or attempt.written_s is not None:
        return None
    keeps = decision.state.settable is not None
    factor = attempt.overrides.lr_scale if keeps else for_relaunch(attempt.overrides, row.step - 1, None).lr_scale
    if factor is None:
        return 1.0
    return factor if grade_of(attempt.proofs, LEARNING_RATE) in PROVEN else None


def asks_for_skip(attempt: Attempt) -> bool:
    """Whether the next step may show that a skip is not in force. It counts for as long as it is asked for: no incident need be
    open for it, and a person may have asked for it. (What a step may show beside: `LiveAttempt.claimed` and `rates`.)"""
    before = attempt.before.skip if attempt.before is not None else ()
    return bool(attempt.overrides.skip or before)


def observe_settings(decision: Decision, attempt: Attempt, reading: StepReading) -> tuple[Finding, ...]:
    """What a new step shows of the settings asked for: an incident where one is not in force. Costs nothing where none is."""
    skip = _skip_in_force(attempt)
    found = (*_observe_start(decision, attempt, reading, skip), *_observe_rate(decision, attempt, reading))
    if not skip:
        return found
    if not decision.live.samples_show:
        return (*found, *_observe_counts(decision, attempt, reading, skip))
    return (*found, *_observe_skip(decision, attempt, reading, skip)) if reading.samples else found


def _observe_start(
    decision: Decision, attempt: Attempt, reading: StepReading, skip: tuple[SampleRange, ...]
) -> tuple[Finding, ...]:
    """Whether the first rows follow the step from which the receipt says that the trainer went on. A row without a loss may be
    of an evaluation before the first step; lines that were lost hide the first steps."""
    live = decision.live
    if live.claimed is None or "loss" not in reading.metrics:
        return ()
    if live.first_steps and reading.step <= live.first_steps[-1]:
        return ()
    live.first_steps.append(reading.step)
    batch = sum(one.end - one.start for one in reading.samples)
    left_out = sum(one.end - one.start for one in merge((*skip, *live.announced_skip)))
    spare = 0 if not left_out else left_out // batch + 1 if batch else None
    words = why_begun_elsewhere(live.claimed, live.first_steps, None if live.holes else spare)
    if words or len(live.first_steps) > 1:
        live.claimed = None
    known = any(one.kind is Kind.OVERRIDE_MISMATCH and one.attempt == attempt.attempt for one in decision.state.incidents)
    return (mismatch(decision, reading.step, words),) if words and not known else ()


def _skip_in_force(attempt: Attempt) -> tuple[SampleRange, ...]:
    """What the trainer has heard of: not a change that it has not answered yet."""
    is_answered = attempt.written_s is None or attempt.answered == attempt.overrides.id
    return attempt.overrides.skip if is_answered else attempt.before.skip if attempt.before is not None else ()


def _observe_rate(decision: Decision, attempt: Attempt, reading: StepReading) -> tuple[Finding, ...]:
    before, wanted = decision.live.rates, attempt.overrides.lr_scale
    if before is None or "lr" not in reading.metrics:
        return ()
    after, newer = ShownRate(reading.step, reading.metrics["lr"]), before.newer
    asked = wanted if attempt.written_s is None else None
    grade = compare_rates(before, after, asked) if asked is not None else None
    doubts = grade == "contradicted" or (grade == "observed" and asked == before.factor)
    if doubts and before.looked_at + 1 < ROWS_TO_TELL:
        decision.live.rates = replace(before, looked_at=before.looked_at + 1)
        return ()
    decision.live.rates = None  # the first row that tells it decides
    if grade == "observed" and _is_doubtful(attempt, LEARNING_RATE):
        reason = f"the learning rate went from {newer.rate:.4g} to {after.rate:.4g}"
        if asked == before.factor:
            reason = f"the learning rate goes on at {after.rate:.4g}, as under the same factor before"
        decision.record(f.SettingObserved(attempt.attempt, Proof(LEARNING_RATE, grade), reading.step, reason))
    if grade != "contradicted":
        return ()
    words = f"the learning rate is {after.rate:.4g} at step {reading.step} and was {newer.rate:.4g} before, asked for {wanted:g}x"
    return _contradicted(decision, attempt, LEARNING_RATE, reading.step, words)


def _observe_skip(
    decision: Decision, attempt: Attempt, reading: StepReading, skip: tuple[SampleRange, ...]
) -> tuple[Finding, ...]:
    spare = decision.live.spare_samples
    met = first_met([SampleRange(one.start, one.end - spare) for one in skip], reading.samples)
    behind, decision.live.samples_end = decision.live.samples_end, reading.samples[-1].end
    if met is not None:
        words = f"step {reading.step} trained on the samples {met.start}..{met.end}, which were to be left out"
        return _contradicted(decision, attempt, SKIP, reading.step, words)
    if behind is None or not _is_doubtful(attempt, SKIP):
        return ()
    if not passed_over(skip, behind, reading.samples, decision.live.announced_skip):
        return ()
    if all(one.end <= reading.samples[-1].end for one in skip):
        reason = f"step {reading.step} passed over them"
        decision.record(f.SettingObserved(attempt.attempt, Proof(SKIP, "observed"), reading.step, reason))
    return ()


def _observe_counts(
    decision: Decision, attempt: Attempt, reading: StepReading, skip: tuple[SampleRange, ...]
) -> tuple[Finding, ...]:
    """Rows of every tenth step show by what the trainer counts how much of what lies between two of them was left out. Where
    leaving out costs no step, the samples of a row run ahead of its number, and its counts are of others."""
    now = counts_of(reading)
    if now is None or (reading.samples and reading.samples[-1].end > reading.step):
        return ()
    before, decision.live.counted = decision.live.counted, now
    grade = compare_counts(skip, decision.live.announced_skip, before, now) if before is not None else None
    if before is None or grade is None:
        return ()
    batches = size_within(skip, before.step, now.step)
    if grade == "contradicted":
        words = f"step {now.step}: no sample was left out since step {before.step}, {batches} batches were to be"
        return _contradicted(decision, attempt, SKIP, reading.step, words)
    if _is_doubtful(attempt, SKIP) and all(one.end <= now.step for one in skip):
        reason = f"the trainer counted {now.left_out - before.left_out:.0f} samples left out up to step {now.step}"
        decision.record(f.SettingObserved(attempt.attempt, Proof(SKIP, "observed"), reading.step, reason))
    return ()


def _is_doubtful(attempt: Attempt, key: str) -> bool:
    return grade_of(attempt.proofs, key) in ("asserted", "none")


def _contradicted(decision: Decision, attempt: Attempt, key: str, step: int, words: str) -> tuple[Finding, ...]:
    """Once an attempt: whoever lies in one step does so in the next."""
    if grade_of(attempt.proofs, key) == "contradicted":
        return ()
    decision.record(f.SettingObserved(attempt.attempt, Proof(key, "contradicted"), step, words))
    return (mismatch(decision, step, words),)
