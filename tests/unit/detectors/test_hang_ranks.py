"""Which rank stopped, and what moves without getting anywhere."""

from __future__ import annotations

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.rank_places import Beat, choose_silent, choose_stuck
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Phase, SilentRank
from tests.unit.detectors.bank_kit import beat, make_bank, receipt, row
from tests.unit.detectors.test_hang import ticks, training


def hangs(found: list[Finding] | tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in found if finding.kind is Kind.HANG]


def living_threads(bank, ranks, start_s: int, end_s: int, phase: Phase = "backward", step: int = 21) -> list[Finding]:
    """A thread of each of these ranks keeps its heartbeat fresh, every second, whatever the rank does."""
    found: list[Finding] = []
    for now_s in range(start_s, end_s):
        for rank in ranks:
            bank.heartbeats([beat(rank, step, phase)], float(now_s))
        found += bank.tick(float(now_s))
    return hangs(found)


def test_a_silent_rank_is_named_while_the_others_live_and_wait() -> None:
    bank = training(ranks=4)
    found = living_threads(bank, (0, 1, 3), 21, 90)
    assert [(finding.blamed_rank, finding.visible_s) for finding in found] == [(2, 20.0)]
    assert "1/4 ranks silent for over 30 s" in found[0].reason
    assert "rank 2 is furthest behind (step 21, forward, silent for 3" in found[0].reason
    assert "3 of 3 others at step 21, backward" in found[0].reason
    assert bank.verdicts()[Kind.HANG][0] is Verdict.BREACHED


def test_a_silent_rank_hangs_nobody_while_the_others_go_on() -> None:
    bank = training(ranks=4)
    for step in range(21, 300):
        for rank in (0, 1, 3):
            bank.heartbeats([beat(rank, step, "forward")], float(step))
        bank.step(row(step, loss=2.0), float(step))
        assert bank.tick(float(step)) == ()


def test_a_rank_whose_heartbeat_broke_long_ago_is_not_blamed_for_a_slow_step() -> None:
    bank = training(ranks=4)
    for step in range(21, 300):
        for rank in (0, 1, 3):
            bank.heartbeats([beat(rank, step, "forward")], float(step))
        bank.step(row(step, loss=2.0), float(step))
        bank.tick(float(step))
    assert living_threads(bank, (0, 1, 3), 300, 400, step=300) == []


@pytest.mark.parametrize("phase", ["eval", "checkpoint", "data", "idle"])
def test_others_that_do_something_else_than_wait_are_not_waiting(phase: Phase) -> None:
    assert living_threads(training(ranks=4), (0, 1, 3), 21, 290, phase=phase) == []


def test_a_silent_rank_in_a_slow_phase_has_that_phase_s_limit() -> None:
    bank = training(ranks=4)
    bank.heartbeats([beat(2, 21, "checkpoint")], 21.0)
    assert living_threads(bank, (0, 1, 3), 22, 620) == []
    assert [finding.blamed_rank for finding in living_threads(bank, (0, 1, 3), 620, 660)] == [2]


def test_heartbeats_that_change_without_a_step_are_a_hang_after_ten_limits() -> None:
    bank = training()
    found = living_threads(bank, (0, 1), 21, 400)
    assert [finding.detected_step for finding in found] == [20]
    assert "no step for over 5 min although heartbeats change" in found[0].reason
    assert (found[0].visible_s, found[0].blamed_rank) == (20.0, None)


def test_phases_that_cycle_without_a_step_are_a_hang_too() -> None:
    bank = training()
    cycle: tuple[Phase, ...] = ("data", "forward", "backward")
    found: list[Finding] = []
    for now_s in range(21, 3200):
        for rank in range(2):
            bank.heartbeats([beat(rank, 21, cycle[now_s % 3])], float(now_s))
        found += hangs(bank.tick(float(now_s)))
    assert len(found) == 1
    assert "no step for over 50 min" in found[0].reason  # ten times the limit this policy gives to data


def test_a_long_evaluation_that_beats_is_no_standstill_nor_is_what_comes_after_it() -> None:
    bank = training()
    assert living_threads(bank, (0, 1), 21, 2000, phase="eval") == []
    assert living_threads(bank, (0, 1), 2000, 2020, phase="data") == []
    assert living_threads(bank, (0, 1), 2020, 2040, phase="forward") == []


def test_a_quiet_stream_under_ranks_that_go_on_is_no_hang_but_is_not_seen() -> None:
    bank = training()
    for step in range(21, 400):
        for rank in range(2):
            bank.heartbeats([beat(rank, step, "forward")], float(step))
        assert bank.tick(float(step)) == ()
    assert bank.stream_gap == "heartbeats are at step 399, the newest line is of step 20, 6 min 19 s ago"
    verdict, reason = bank.verdicts()[Kind.SPIKE]
    assert (verdict, "the stream is quiet: " in reason) == (Verdict.UNKNOWN, True)
    assert bank.verdicts()[Kind.HANG][0] is Verdict.HEALTHY
    bank.step(row(400, loss=2.0), 400.0)
    bank.tick(400.0)
    assert bank.stream_gap is None


def test_a_run_that_logs_rarely_has_no_gap() -> None:
    bank = make_bank()
    for step in range(1, 1000):
        bank.heartbeats([beat(0, step, "forward")], float(step))
        if step % 100 == 0:
            bank.step(row(step, loss=2.0), float(step))
        assert bank.tick(float(step)) == ()
        assert bank.stream_gap is None


def at(step: int, phase: Phase, seen_s: float, moved_s: float | None = None) -> Beat:
    return Beat(step, phase, seen_s, seen_s if moved_s is None else moved_s)


def test_who_entered_a_place_first_is_ahead_and_not_to_blame() -> None:
    assert choose_stuck({0: at(5, "backward", 10.0), 1: at(5, "backward", 60.0)}, 2) is None


def test_who_stopped_first_where_the_others_were_still_heard_is_to_blame() -> None:
    beats = {0: at(5, "backward", 60.0, 10.0), 1: at(5, "backward", 20.0, 10.0), 2: at(5, "backward", 61.0, 10.0)}
    assert choose_stuck(beats, 3) == 1
    assert choose_stuck(beats | {0: at(5, "backward", 23.0, 10.0)}, 3) is None  # stopped together
    assert choose_stuck(beats | {2: at(4, "backward", 61.0, 10.0)}, 3) == 2  # furthest behind comes first


def test_silence_is_nobody_s_while_somebody_moves_or_nobody_lives() -> None:
    silent, waiting = at(5, "forward", 10.0), at(5, "backward", 99.0, 11.0)
    assert choose_silent({0: silent, 1: waiting}, 100.0, 10.0, 30.0) == (0,)
    assert choose_silent({0: silent, 1: at(6, "data", 99.0)}, 100.0, 10.0, 30.0) == ()
    assert choose_silent({0: silent, 1: silent}, 100.0, 10.0, 30.0) == ()
    assert choose_silent({0: silent, 1: waiting}, 100.0, 90.0, 30.0) == ()


def test_the_verdict_of_a_silent_run_names_where_everybody_stands() -> None:
    bank = training()
    bank.heartbeats([beat(0, 21, "backward")], 21.0)
    (found,) = hangs(ticks(bank, 60, 60))
    assert "rank 1 is furthest behind (step 21, forward, silent for 40 s); 1 of 1 others at step 21, backward" in found.reason


def with_a_broken_heartbeat(broken: int, culprit: int | None, phase: Phase = "forward") -> DetectorBank:
    """The heartbeat of one rank no longer arrives after step 21; at step 299 all stop, `culprit` a step behind."""
    bank = training(ranks=4)
    bank.heartbeats([beat(broken, 21, phase)], 20.5)
    for step in range(21, 300):
        for rank in {0, 1, 2, 3} - {broken, culprit if step == 299 else broken}:
            bank.heartbeats([beat(rank, step, "forward")], float(step))
        if step < 299:
            bank.step(row(step, loss=2.0), float(step))
        bank.tick(float(step))
    return bank


@pytest.mark.parametrize(("culprit", "blamed"), [(1, 1), (None, None)])
def test_a_rank_whose_heartbeat_broke_long_ago_is_not_blamed_for_the_hang_of_another(
    culprit: int | None, blamed: int | None
) -> None:
    """It stands 278 steps behind by its heartbeat, and none of those was made without it."""
    assert ticks(with_a_broken_heartbeat(2, culprit), 300, 400)[0].blamed_rank == blamed
    bank = with_a_broken_heartbeat(2, culprit)
    bank.ranks_seen(SilentRank(1, 2, "stopped", ""))  # what its own machine shows still counts
    assert ticks(bank, 300, 400)[0].blamed_rank == 2
    for rank in (1, 2):
        bank = with_a_broken_heartbeat(2, None)
        for blocked in (rank, 3):
            bank.ranks_seen(SilentRank(1, blocked, "blocked", ""))
        assert ticks(bank, 300, 400)[0].blamed_rank is None


def test_the_phase_in_which_a_heartbeat_broke_sets_no_limit() -> None:
    assert ticks(with_a_broken_heartbeat(2, None, "checkpoint"), 300, 340)[0].baseline == 30.0


def test_who_never_beat_in_an_attempt_that_made_steps_has_no_heartbeat_that_arrives() -> None:
    bank = make_bank()
    bank.receipt(receipt(world_size=4), 0.0)
    for step in range(1, 21):
        for rank in range(3):
            bank.heartbeats([beat(rank, step, "forward")], float(step))
        bank.step(row(step, time_s=float(step), loss=2.0), float(step))
    assert ticks(bank, 20, 100)[0].blamed_rank is None
    bank.heartbeats([beat(0, 21, "backward")], 101.0)
    bank.heartbeats([beat(2, 21, "backward")], 101.0)
    assert ticks(bank, 101, 200)[0].blamed_rank == 1
