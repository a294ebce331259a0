"""Checkpoints that stop coming; and rhythms that change for good reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.stale_checkpoint import StaleCheckpointSettings
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import CheckpointReading, Receipt, TrainerNote
from tests.unit.detectors.bank_kit import beat, config, make_bank, row


def begun(
    effective: Mapping[str, Any] | None = None, resume_step: int = 0, settings: StaleCheckpointSettings | None = None
) -> DetectorBank:
    bank = make_bank(begun=False)
    if settings is not None:
        bank = DetectorBank(config(stale_checkpoint=settings), {}, {})
    bank.begin_attempt(1, 0.0)
    bank.receipt(Receipt(1, 0.0, resume_step, None, 2, {}, effective or {}), 0.0)
    return bank


def train(
    bank: DetectorBank,
    last: int,
    saves: Callable[[int], bool],
    *,
    first: int = 1,
    step_s: float = 1.0,
    by: str = "note",
    sees: bool = True,
) -> list[Finding]:
    found: list[Finding] = []
    for step in range(first, last + 1):
        now_s = step * step_s
        found += bank.step(row(step, time_s=1e6 + now_s, loss=2.0), now_s)
        if saves(step) and by != "directory":
            bank.note(TrainerNote(1, "checkpoint_committed", step, 1e6 + now_s), now_s)
        if saves(step) and by != "note":
            bank.checkpoint(CheckpointReading(step, f"checkpoints/step-{step:08d}", 1, step, "d"), now_s)
        found += bank.tick(now_s, sees_checkpoints=sees)
    return [finding for finding in found if finding.kind is Kind.STALE_CHECKPOINT]


@pytest.mark.parametrize("by", ["note", "directory", "both"])
def test_a_rhythm_that_stops_is_told_once(by: str) -> None:
    bank = begun()
    found = train(bank, 400, lambda step: step % 20 == 0 and step <= 200, by=by)
    assert [(f.onset_step, f.detected_step, f.severity) for f in found] == [(200, 251, "warning")]
    assert "since step 200, 51 steps and 51 s of training ago; one every 20 steps is this run's rhythm" in found[0].reason
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.BREACHED


def test_it_heals_with_the_next_commit_and_may_come_again() -> None:
    bank = begun()
    saves = lambda step: step % 20 == 0 and (step <= 200 or 300 <= step <= 400)  # noqa: E731
    assert len(train(bank, 340, saves)) == 1
    assert bank.verdicts()[Kind.STALE_CHECKPOINT] == (Verdict.HEALTHY, "newest checkpoint: step 340, 0 steps ago")
    assert [f.onset_step for f in train(bank, 600, saves, first=341)] == [400]


def test_until_a_rhythm_is_known_nothing_is() -> None:
    bank = begun()
    assert train(bank, 5000, lambda step: step in (100, 200)) == []
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.UNKNOWN


def test_what_the_trainer_says_is_its_rhythm() -> None:
    (found,) = train(begun({"checkpoint_interval": 50}), 400, lambda step: False)
    assert (found.onset_step, found.detected_step, found.baseline) == (0, 126, 50.0)


def test_a_rhythm_changed_by_a_live_override_is_the_new_one() -> None:
    bank = begun({"checkpoint_interval": 10})
    assert train(bank, 100, lambda step: step % 10 == 0) == []
    bank.note(TrainerNote(1, "override_lapsed", 101, 0.0, {"effective": {"checkpoint_interval": 100}}), 100.0)
    assert train(bank, 340, lambda step: step % 100 == 0, first=101) == []
    assert [f.onset_step for f in train(bank, 700, lambda step: False, first=341)] == [300]


def test_saving_by_the_clock_while_steps_get_faster_is_not_late() -> None:
    bank = begun()
    assert train(bank, 200, lambda step: step % 20 == 0, step_s=10.0) == []
    found: list[Finding] = []
    for step in range(201, 401):  # a hundred steps now fit between two checkpoints
        time_s = 2000.0 + (step - 200) * 2.0
        found += bank.step(row(step, time_s=1e6 + time_s, loss=2.0), time_s)
        if step % 100 == 0:
            bank.note(TrainerNote(1, "checkpoint_committed", step, time_s), time_s)
        found += bank.tick(time_s)
    assert found == []


def test_saving_by_steps_while_steps_get_slower_is_not_late() -> None:
    bank = begun()
    train(bank, 200, lambda step: step % 20 == 0)
    assert train(bank, 400, lambda step: step % 20 == 0, first=201, step_s=10.0) == []


def test_a_save_that_waits_for_a_busy_disk_is_not_late_by_a_rhythm_of_milliseconds() -> None:
    """Ten steps of 5 ms a save, as said by the trainer and not learned yet: 4 s without one lose nobody anything."""
    bank = begun({"checkpoint_interval": 10})
    assert train(bank, 800, lambda step: False, step_s=0.005) == []
    assert [found.kind for found in train(bank, 1400, lambda step: False, first=801, step_s=0.005)] == [Kind.STALE_CHECKPOINT]


def test_saves_begun_and_never_committed_are_told_without_a_rhythm() -> None:
    bank = begun()
    found: list[Finding] = []
    for step in range(1, 200):
        found += bank.step(row(step, time_s=float(step), loss=2.0), float(step))
        if step % 50 == 0:
            bank.heartbeats([beat(0, step, "checkpoint")], float(step))
            bank.heartbeats([beat(1, step + 1, "checkpoint")], float(step))  # a trainer that counts one ahead
        bank.heartbeats([beat(0, step + 1, "forward")], float(step))
        bank.heartbeats([beat(1, step + 1, "forward")], float(step))
        found += bank.tick(float(step))
    told = [finding for finding in found if finding.kind is Kind.STALE_CHECKPOINT]
    assert [(f.onset_step, f.detected_step) for f in told] == [(0, 176)]
    assert "saves were begun at steps 50, 100, 150 and never committed; the newest checkpoint is from step 0" in told[0].reason


def test_an_age_the_policy_does_not_allow_is_told_whatever_the_rhythm() -> None:
    bank = begun(settings=StaleCheckpointSettings(max_age_s=300.0))
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.HEALTHY
    (found,) = train(bank, 400, lambda step: False)
    assert found.detected_step == 302
    assert "the policy allows 5 min" in found.reason


def test_a_clock_that_jumps_makes_nothing_old() -> None:
    bank = begun(settings=StaleCheckpointSettings(max_age_s=7200.0))
    found: list[Finding] = []
    for step in range(1, 200):
        found += bank.step(row(step, time_s=step + (1e9 if step > 50 else 0.0), loss=2.0), float(step))
        found += bank.tick(float(step))
    assert found == []


def test_what_cannot_be_seen_is_not_missing() -> None:
    bank = begun({"checkpoint_interval": 20})
    assert train(bank, 400, lambda step: False, sees=False) == []


def test_the_age_begins_at_the_resume() -> None:
    bank = begun({"checkpoint_interval": 20}, resume_step=1000)
    assert train(bank, 1050, lambda step: False, first=1001) == []
    assert [f.onset_step for f in train(bank, 1060, lambda step: False, first=1051)] == [1000]


def test_a_checkpoint_of_an_abandoned_attempt_is_none_of_this_one() -> None:
    bank = begun({"checkpoint_interval": 20})
    bank.checkpoint(CheckpointReading(500, "checkpoints/step-00000500", 7, 500, "d"), 0.0)
    assert len(train(bank, 100, lambda step: False)) == 1


def test_switched_off_it_says_so() -> None:
    bank = begun({"checkpoint_interval": 20}, settings=StaleCheckpointSettings(enabled=False))
    assert train(bank, 400, lambda step: False) == []
    assert bank.verdicts()[Kind.STALE_CHECKPOINT] == (Verdict.UNKNOWN, "switched off by policy")


def test_a_stream_that_is_read_again_from_its_start_makes_no_saved_checkpoint_old() -> None:
    """Somebody cut metrics.jsonl: its receipt comes again, and the checkpoints, which are there, are not reported twice."""
    saves = lambda step: step % 20 == 0  # noqa: E731
    bank = begun({"checkpoint_interval": 20})
    assert train(bank, 105, saves, by="directory") == []
    bank.receipt(Receipt(1, 0.0, 0, None, 2, {}, {"checkpoint_interval": 20}), 106.0)
    for step in (1, 2):
        bank.step(row(step, time_s=1e6 + step, loss=2.0), 106.0)
    assert train(bank, 119, saves, first=106, by="directory") == []
    assert bank.verdicts()[Kind.STALE_CHECKPOINT] == (Verdict.HEALTHY, "newest checkpoint: step 100, 19 steps ago")


def find(bank: DetectorBank, last: int, first: int, event: Callable[[int], list[tuple[str, int]]]) -> list[Finding]:
    found: list[Finding] = []
    for step in range(first, last + 1):
        found += bank.step(row(step, time_s=1e6 + step, loss=2.0), float(step))
        for name, saved in event(step):
            bank.note(TrainerNote(1, name, saved, 1e6 + step), float(step))
        found += bank.tick(float(step), sees_checkpoints=True)
    return [finding for finding in found if finding.kind is Kind.STALE_CHECKPOINT]


def test_a_checkpoint_that_waits_for_its_seal_is_saved() -> None:
    """Measured with Lightning beside a busy disk: a save every 5 s, the seal 27 s behind it, and a page that nothing is saved."""
    bank = begun()
    assert train(bank, 100, lambda step: step % 5 == 0) == []
    late = lambda step: (  # noqa: E731
        [("checkpoint_found", step)] * (step % 5 == 0) + [("checkpoint_committed", step - 30)] * (step % 5 == 0 and step > 130)
    )
    assert find(bank, 400, 101, late) == []
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.HEALTHY
    (stopped,) = find(bank, 600, 401, lambda step: [])
    assert (stopped.onset_step, stopped.detected_step) == (400, 413), "a run that no longer saves is as stale as any"


def test_where_none_is_sealed_for_long_that_is_told_once_until_one_is() -> None:
    bank = begun()
    train(bank, 100, lambda step: step % 5 == 0)
    (found,) = find(bank, 1500, 101, lambda step: [("checkpoint_found", step)] * (step % 5 == 0))
    assert (found.detected_step, found.severity) == (706, "warning")
    waits = "the checkpoint of step 705 lies there whole, and none was sealed for 10 min 1 s of training"
    assert found.reason == f"{waits}; a rollback cannot use it"
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.BREACHED
    assert find(bank, 1504, 1501, lambda step: [("checkpoint_committed", 1500)] * (step == 1501)) == []
    assert bank.verdicts()[Kind.STALE_CHECKPOINT][0] is Verdict.HEALTHY
