"""Whom a hang is blamed on, by each kind of evidence and by several of them."""

from __future__ import annotations

import pytest

from sentinel.detectors.collectives import WaitedFor
from sentinel.detectors.hang import HangSettings, HangVerdict, Progress, judge_hang
from sentinel.detectors.hang_blame import RankEvidence, choose_blame
from sentinel.detectors.rank_places import Beat
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import Doing, Phase, SilentRank
from tests.unit.detectors.bank_kit import beat, make_bank
from tests.unit.detectors.test_hang import ticks, training

NOW_S = 100.0


def at(step: int, phase: Phase, seen_s: float = 50.0) -> Beat:
    return Beat(step, phase, seen_s, seen_s)


def doing(**ranks: Doing) -> dict[int, SilentRank]:
    """`doing(r0="stopped")`: rank 0 is stopped."""
    return {int(name[1:]): SilentRank(1, int(name[1:]), does, "here") for name, does in ranks.items()}


def blamed(beats: dict[int, Beat], *, waited: tuple[int, ...] = (), **ranks: Doing) -> int | None:
    collectives = WaitedFor(waited, "they wait") if waited else None
    return choose_blame(beats, len(beats), RankEvidence(doing(**ranks), collectives), NOW_S).rank


STALE_SAVE = {0: at(56, "checkpoint"), 1: at(57, "data")}  # rank 0 waits in the collective that follows its save


def test_a_rank_that_is_stopped_is_blamed_wherever_the_others_stand() -> None:
    assert blamed(STALE_SAVE, r0="runs", r1="stopped") == 1
    assert blamed(STALE_SAVE, r0="stopped", r1="runs") == 0
    assert blamed({0: at(5, "forward"), 1: at(4, "backward")}, r0="stopped", r1="runs") == 0
    assert (
        choose_blame(STALE_SAVE, 2, RankEvidence(doing(r0="runs", r1="stopped")), NOW_S).words
        == "rank 1 is stopped by a signal (here): step 57, data, silent for 50 s"
    )


def test_a_phase_left_over_from_the_step_before_blames_nobody_by_itself() -> None:
    assert blamed(STALE_SAVE) is None
    assert blamed(STALE_SAVE, r0="runs", r1="runs") is None


@pytest.mark.parametrize("phase", ["checkpoint", "eval", "idle"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_one_rank_did_between_the_steps_blames_it_for_no_hang_of_the_next_one(ranks: int, phase: Phase) -> None:
    even: dict[int, Beat] = {rank: at(101, "forward") for rank in range(1, ranks)}
    assert blamed({0: at(100, phase, 49.6), **even}) is None
    assert blamed({0: at(100, phase, 49.6), **even}, r0="waits") is None
    assert blamed({0: Beat(100, phase, 70.0, 49.6), **even}) == 0  # was heard in it for 20 s: it is there


def test_a_rank_seen_to_wait_is_not_blamed_by_where_it_stands_and_the_others_are_told_apart_without_its_leftover() -> None:
    others = {rank: at(101, "forward") for rank in range(1, 8)}
    over = {0: at(100, "checkpoint", 49.6), **others, 5: at(101, "data")}
    assert blamed(over) is None  # rank 0 may hang in its save, or rank 5 in its data
    assert blamed(over, r0="waits") == 5
    assert blamed({**others, 3: at(100, "optimizer")}) == 3
    assert blamed({**others, 3: at(100, "optimizer")}, r3="waits") is None


def alone_silent(evidence: RankEvidence) -> HangVerdict:
    """Rank 6 is silent, seven others beat and stand still."""
    beats = {rank: Beat(50, "backward", 199.0, 140.0) for rank in range(8)} | {6: Beat(50, "backward", 155.0, 140.0)}
    known = Progress(199.0, 138.0, beats, frozenset(), 8, True, 1.0, 1, evidence)
    return judge_hang(200.0, known, HangSettings())


def test_what_names_another_rank_outweighs_that_one_heartbeat_stopped_arriving() -> None:
    assert alone_silent(RankEvidence()).blamed_rank == 6
    assert alone_silent(RankEvidence({}, WaitedFor((3,), "they wait"))).blamed_rank == 3
    assert alone_silent(RankEvidence(doing(r3="blocked", r6="waits"))).blamed_rank == 3
    assert alone_silent(RankEvidence(doing(r6="waits"))).blamed_rank is None
    assert alone_silent(RankEvidence(doing(r6="stopped"), WaitedFor((3,), "they wait"))).blamed_rank == 6


def test_who_works_alone_while_the_others_wait_is_blamed_though_it_is_a_step_ahead() -> None:
    assert blamed({0: at(56, "optimizer"), 1: at(57, "data")}) == 1
    assert blamed({0: at(56, "optimizer"), 1: at(56, "backward"), 2: at(57, "data")}) == 2
    assert blamed({0: at(57, "forward"), 1: at(57, "data"), 2: at(57, "data"), 3: at(56, "optimizer")}) == 3


def test_all_stopped_is_nobody_s_fault_and_several_stopped_are_told_apart_by_where_they_stand() -> None:
    even = {rank: at(5, "forward") for rank in range(3)}
    assert blamed(even, r0="stopped", r1="stopped", r2="stopped") is None
    uneven = {0: at(5, "forward"), 1: at(4, "backward")}
    assert blamed(uneven, r0="stopped", r1="stopped") is None, "where they stood when somebody suspended the job says nothing"
    found = choose_blame(uneven, 2, RankEvidence(doing(r0="stopped", r1="stopped")), NOW_S)
    assert found.words == "all 2 ranks are stopped by a signal: somebody suspended them, and none is to blame"
    assert blamed(even, r0="stopped", r1="stopped") is None
    assert blamed(even | {1: at(4, "backward")}, r0="stopped", r1="stopped") == 1


def test_a_rank_blocked_in_the_kernel_comes_after_one_that_is_stopped() -> None:
    even = {rank: at(5, "forward") for rank in range(3)}
    assert blamed(even, r0="blocked") == 0
    assert blamed(even, r0="blocked", r2="stopped") == 2


def test_a_collective_that_names_a_rank_outweighs_stacks_and_places() -> None:
    beats = {0: at(5, "forward"), 1: at(5, "backward"), 2: at(5, "backward")}
    assert blamed(beats) == 0
    assert blamed(beats, waited=(2,)) == 2
    assert blamed(beats, waited=(1, 2)) is None  # both stand alike
    assert blamed(beats, waited=(0, 2)) == 0
    assert blamed(beats, waited=(2,), r1="stopped") == 1
    assert blamed({}, waited=(7,)) == 7  # a run without heartbeats


def test_stacks_blame_who_works_only_if_everybody_else_is_seen_to_wait() -> None:
    even = {rank: at(5, "forward") for rank in range(3)}
    assert blamed(even, r0="works", r1="waits", r2="waits") == 0
    assert blamed(even, r0="works", r1="waits") is None  # of rank 2 nothing is known
    assert blamed(even, r0="works", r1="works", r2="waits") is None


def test_a_rank_that_alone_shows_no_stack_when_it_should_is_the_one_the_others_wait_for() -> None:
    even = {rank: at(5, "forward") for rank in range(3)}
    assert blamed(even, r0="waits", r1="mute", r2="waits") == 1
    assert blamed(even, r0="waits", r1="mute") is None  # of rank 2 nothing is known
    assert blamed(even, r0="waits", r1="mute", r2="runs") is None  # which was not asked, or stands in native code
    assert blamed(even, r0="works", r1="mute", r2="waits") is None
    assert blamed(even, r0="mute", r1="mute", r2="waits") is None
    assert blamed(even, r0="mute", r1="stopped", r2="waits") == 1
    words = choose_blame(even, 3, RankEvidence(doing(r0="waits", r1="mute", r2="waits")), NOW_S).words
    assert words == "rank 1 shows no stack when it should, the others wait (here): step 5, forward, silent for 50 s"


@pytest.mark.parametrize("phase", ["checkpoint", "eval", "data"])
def test_a_stopped_rank_is_in_no_phase_and_the_limit_of_a_step_holds(phase: Phase) -> None:
    """Beside busy processes the other rank stays in the phase of its last heartbeat, and that phase's limit would hold."""
    bank = training()
    bank.heartbeats([beat(0, 20, phase)], 20.5)
    bank.heartbeats([beat(1, 21, "data")], 20.6)
    bank.ranks_seen(SilentRank(1, 1, "stopped", "do_signal_stop"))
    (found,) = [one for one in ticks(bank, 50, 60) if one.kind is Kind.HANG]
    assert (found.blamed_rank, found.baseline) == (1, 30.0)
    assert "rank 1 is stopped by a signal (do_signal_stop)" in found.reason


def test_what_was_seen_is_forgotten_when_the_rank_is_heard_from_again() -> None:
    bank = training()
    bank.ranks_seen(SilentRank(1, 1, "stopped"))
    bank.heartbeats([beat(0, 21, "forward")], 21.0)
    bank.heartbeats([beat(1, 21, "forward")], 21.1)
    found: list[Finding] = [one for one in ticks(bank, 60, 60) if one.kind is Kind.HANG]
    assert [one.blamed_rank for one in found] == [None]


def test_what_is_seen_of_another_attempt_is_not_believed() -> None:
    bank = make_bank()
    bank.heartbeats([beat(0, 1, "forward")], 1.0)
    bank.ranks_seen(SilentRank(7, 0, "stopped"))
    assert not any("stopped by a signal" in one.reason for one in ticks(bank, 4000, 1) if one.kind is Kind.HANG)
