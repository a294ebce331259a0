"""Hangs, and everything that looks like one and is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.hang import HangSettings
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Phase, SilentRank, TrainerNote
from tests.unit.detectors.bank_kit import beat, feed, make_bank, receipt, row


def training(steps: int = 20, *, step_s: float = 1.0, ranks: int = 2) -> DetectorBank:
    """An attempt that has done `steps` steps, its ranks now in the next step's forward."""
    bank = make_bank()
    bank.receipt(receipt(world_size=ranks), 1.0)
    for step in range(1, steps + 1):
        for rank in range(ranks):
            bank.heartbeats([beat(rank, step, "forward")], step * step_s)
        bank.step(row(step, time_s=step * step_s, loss=2.0), step * step_s)
    for rank in range(ranks):
        bank.heartbeats([beat(rank, steps + 1, "forward")], steps * step_s)
    return bank


def ticks(bank: DetectorBank, start_s: float, end_s: float, every_s: float = 1.0) -> list[Finding]:
    found: list[Finding] = []
    now_s = start_s
    while now_s <= end_s:
        found.extend(bank.tick(now_s))
        now_s += every_s
    return found


def test_silence_over_the_limit_is_one_finding() -> None:
    bank = training()
    assert ticks(bank, 20, 50) == []
    found = ticks(bank, 51, 500)
    assert [finding.kind for finding in found] == [Kind.HANG]
    assert (found[0].onset_step, found[0].detected_step, found[0].visible_s, found[0].baseline) == (None, 20, 20.0, 30.0)
    assert "2/2 ranks silent for over 30 s" in found[0].reason
    assert bank.verdicts()[Kind.HANG][0] is Verdict.BREACHED


def test_the_limit_follows_the_learned_step_time() -> None:
    bank = training(step_s=40.0)
    assert bank.step_time_s == 40.0
    assert ticks(bank, 800, 920) == []
    assert len(ticks(bank, 921, 930)) == 1


def test_time_in_which_the_supervisor_itself_stood_still_is_no_silence() -> None:
    """A disk that answers nobody for a minute stops the ranks as it stops the journal."""
    bank = training()
    assert ticks(bank, 20, 25) == []
    bank.away(60.0)
    assert ticks(bank, 85, 110) == []
    found = ticks(bank, 111, 120)
    assert [(finding.kind, finding.visible_s, finding.value) for finding in found] == [(Kind.HANG, 20.0, 31.0)]


def test_a_rank_that_is_stopped_by_a_signal_is_silent_whether_anybody_looked_or_not() -> None:
    bank = training()
    bank.ranks_seen(SilentRank(1, 1, "stopped", "do_signal_stop"))
    bank.away(60.0)
    (found,) = ticks(bank, 51, 51)
    assert found.blamed_rank == 1


def test_after_a_step_nothing_is_left_of_the_time_in_which_nobody_looked() -> None:
    bank = training()
    bank.away(60.0)
    bank.step(row(21, time_s=80.0, loss=2.0), 80.0)
    assert ticks(bank, 80, 110) == []
    assert len(ticks(bank, 111, 111)) == 1
    late = training()
    late.step(row(21, time_s=80.0, loss=2.0), 80.0)  # read in the look that came late
    late.away(60.0)
    assert ticks(late, 80, 110) == []
    assert len(ticks(late, 111, 111)) == 1


def test_a_rank_that_goes_on_first_after_the_supervisor_stood_still_does_not_make_the_other_silent() -> None:
    bank = training()
    assert ticks(bank, 20, 25) == []
    bank.heartbeats([beat(0, 21, "forward")], 85.0)
    bank.away(60.0)
    assert ticks(bank, 85, 86) == []


def test_a_rank_that_stands_behind_is_blamed_and_a_tie_blames_nobody() -> None:
    bank = training()
    bank.heartbeats([beat(0, 21, "backward")], 21.0)
    assert ticks(bank, 60, 60)[0].blamed_rank == 1
    assert ticks(training(), 60, 60)[0].blamed_rank is None


def test_a_rank_that_never_beat_while_others_did_is_blamed() -> None:
    bank = make_bank()
    bank.receipt(receipt(world_size=3), 0.0)
    bank.heartbeats([beat(0, 1, "forward")], 1.0)
    bank.heartbeats([beat(2, 1, "forward")], 1.0)
    assert ticks(bank, 1300, 1300)[0].blamed_rank == 1


def test_progress_ends_the_episode_and_silence_begins_another() -> None:
    bank = training()
    assert len(ticks(bank, 20, 100)) == 1
    bank.heartbeats([beat(1, 21, "backward")], 101.0)
    assert ticks(bank, 101, 130) == []
    assert len(ticks(bank, 132, 200)) == 1


@pytest.mark.parametrize(
    ("phase", "limit_s"), [("compile", 1200), ("eval", 900), ("checkpoint", 600), ("data", 300), ("init", 600)]
)
def test_slow_phases_have_limits_of_their_own(phase: Phase, limit_s: float) -> None:
    bank = training()
    bank.heartbeats([beat(0, 21, phase)], 21.0)
    assert ticks(bank, 21, 21 + limit_s) == []
    assert len(ticks(bank, 22 + limit_s, 30 + limit_s)) == 1


def test_one_rank_saving_lets_the_others_wait() -> None:
    bank = training(ranks=8)
    bank.heartbeats([beat(3, 20, "checkpoint")], 21.0)
    assert ticks(bank, 21, 600) == []


def test_no_heartbeat_since_launch_counts_as_init() -> None:
    bank = make_bank()
    assert ticks(bank, 0, 600, 10) == []
    found = ticks(bank, 601, 601)
    assert "no heartbeat since launch" in found[0].reason
    assert found[0].visible_s == 0.0


def test_a_slow_first_step_is_no_hang() -> None:
    bank = make_bank()
    bank.heartbeats([beat(0, 1, "forward")], 5.0)
    bank.heartbeats([beat(1, 1, "forward")], 5.0)
    assert ticks(bank, 5, 1205, 10) == []
    assert len(ticks(bank, 1206, 1206)) == 1


def test_the_first_step_after_a_relaunch_is_slow_too_though_the_pace_is_known() -> None:
    bank = training()
    bank.begin_attempt(2, 100.0)
    bank.receipt(receipt(2, resume_step=20), 101.0)
    assert bank.step_time_s == 1.0
    bank.heartbeats([beat(0, 21, "forward", attempt=2)], 102.0)
    assert ticks(bank, 102, 600, 10) == []


def test_the_first_interval_after_a_launch_is_not_learned() -> None:
    bank = make_bank()
    for step, time_s in enumerate((500.0, 501.0, 502.0, 503.0), start=1):
        bank.step(row(step, time_s=time_s, loss=2.0), time_s)
    assert bank.step_time_s == 1.0


def test_a_clock_that_runs_backwards_kills_nobody() -> None:
    bank = training()
    assert ticks(bank, 20, 40) == []
    assert bank.tick(-1e9) == ()
    bank.heartbeats([beat(0, 21, "backward")], 5.0)
    assert ticks(bank, 41, 70) == []


def test_a_trainer_clock_that_jumps_does_not_move_the_pace() -> None:
    bank = make_bank()
    time_s = 0.0
    for step in range(1, 40):
        time_s += {15: 1e6, 20: -2e6}.get(step, 2.0)
        bank.step(row(step, time_s=time_s, loss=2.0), float(step))
    assert bank.step_time_s == 2.0


def test_intervals_with_an_evaluation_or_a_checkpoint_are_not_learned() -> None:
    bank = make_bank()
    now_s = 0.0
    slow: Sequence[Phase] = ("eval", "checkpoint")
    for step in range(1, 60):
        if step > 3 and step % 3:
            bank.heartbeats([beat(0, step, slow[step % 2])], now_s)
            now_s += 50.0
        now_s += 1.0
        bank.step(row(step, time_s=now_s, loss=2.0), now_s)
    assert bank.step_time_s == 1.0


def test_without_heartbeats_a_line_is_expected_once_per_logging_interval_and_may_hide_an_evaluation() -> None:
    bank = make_bank()
    feed(bank, (row(step, loss=2.0) for step in range(100, 3100, 100)))
    assert bank.step_time_s == 1.0
    assert ticks(bank, 3000, 3900, 10) == []
    assert len(ticks(bank, 3901, 3901)) == 1


def test_an_event_line_is_progress_and_a_remark_about_the_trainer_is_none() -> None:
    bank = training()
    bank.note(TrainerNote(1, "checkpoint_committed", 20, 45.0), 45.0)
    assert ticks(bank, 46, 75) == []
    bank = training()
    bank.note(TrainerNote(1, "remark", 20, 45.0), 45.0)
    assert len(ticks(bank, 46, 75)) == 1


def test_after_the_attempt_ended_nothing_hangs_and_the_verdict_is_unknown() -> None:
    bank = training()
    bank.end_attempt()
    assert ticks(bank, 20, 5000, 100) == []
    assert bank.verdicts()[Kind.HANG] == (Verdict.UNKNOWN, "no attempt is running")


def test_heartbeats_of_an_older_attempt_are_no_progress() -> None:
    bank = training()
    bank.heartbeats([beat(0, 99, "forward", attempt=0)], 49.0)
    assert len(ticks(bank, 51, 52)) == 1


def test_a_hang_switched_off_never_fires() -> None:
    bank = make_bank(hang=HangSettings(enabled=False))
    assert ticks(bank, 0, 1e5, 1000) == []
    assert bank.verdicts()[Kind.HANG] == (Verdict.UNKNOWN, "switched off by policy")


def test_another_world_size_forgets_the_pace() -> None:
    bank = training()
    bank.begin_attempt(2, 50.0)
    bank.receipt(receipt(2, resume_step=20, world_size=1), 51.0)
    assert bank.step_time_s is None
