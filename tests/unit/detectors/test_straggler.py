"""One rank that keeps the others waiting; and ranks that only look like it."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.straggler import StragglerSettings, choose_slow
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Heartbeat
from tests.unit.detectors.bank_kit import config, make_bank, receipt, row

Busy = Callable[[int, int], float | None]  # (rank, step): seconds of its own work, None when its file was not seen


def train(busy: Busy, *, ranks: int = 4, steps: int = 60, bank: DetectorBank | None = None) -> tuple[DetectorBank, list[Finding]]:
    """Steps of one second each, every rank heard once in each step, by clocks that are a day apart."""
    if bank is None:
        bank = make_bank()
        bank.receipt(receipt(world_size=ranks), 0.0)
    found: list[Finding] = []
    for step in range(1, 1 + steps):
        for rank in range(ranks):
            took = busy(rank, step)
            if took is not None:
                bank.heartbeats([Heartbeat(1, rank, step, "forward", step - 86400.0 * rank, took, step)], float(step))
        found += bank.step(row(step, loss=2.0), float(step))
        found += bank.tick(step + 0.5)
    return bank, [finding for finding in found if finding.kind is Kind.STRAGGLER]


def test_the_slow_rank_is_named_once_and_training_goes_on() -> None:
    bank, found = train(lambda rank, step: 0.5 if rank == 2 else 0.1)
    assert [(finding.blamed_rank, finding.severity) for finding in found] == [(2, "warning")]
    assert found[0].detected_step <= 32
    assert "rank 2 is busy for 0.5 s a step" in found[0].reason
    assert "5.0 times the 0.1 s of its peers" in found[0].reason
    assert bank.verdicts()[Kind.STRAGGLER] == (Verdict.BREACHED, "rank 2 behind 4 ranks")


def test_of_two_ranks_the_faster_is_the_measure() -> None:
    _, found = train(lambda rank, step: 0.5 if rank == 1 else 0.1, ranks=2)
    assert [finding.blamed_rank for finding in found] == [1]


def test_all_alike_is_healthy_and_one_rank_alone_is_unknown() -> None:
    bank, found = train(lambda rank, step: 0.5 + 0.01 * ((rank + step) % 3))
    assert (found, bank.verdicts()[Kind.STRAGGLER]) == ([], (Verdict.HEALTHY, "4 ranks keep up with each other"))
    bank, _ = train(lambda rank, step: 0.5, ranks=1)
    assert bank.verdicts()[Kind.STRAGGLER][0] is Verdict.UNKNOWN


def test_what_is_small_beside_the_step_is_no_straggler() -> None:
    """Twenty times its peers, and two percent of a step: nobody waits for that."""
    assert train(lambda rank, step: 0.02 if rank == 2 else 0.001)[1] == []


def test_one_rank_after_the_other_is_no_straggler() -> None:
    assert train(lambda rank, step: 0.5 if rank == step // 10 % 4 else 0.1, steps=200)[1] == []


def test_now_and_then_is_no_straggler() -> None:
    assert train(lambda rank, step: 5.0 if rank == 2 and step % 3 == 0 else 0.1, steps=200)[1] == []


def test_a_rank_that_is_missing_hides_nobody() -> None:
    _, found = train(lambda rank, step: None if rank == 0 else 0.5 if rank == 2 else 0.1)
    assert [finding.blamed_rank for finding in found] == [2]


def test_files_seen_at_different_steps_compare_all_the_same() -> None:
    _, found = train(lambda rank, step: (0.5 if rank == 2 else 0.1) if step % (rank + 2) == 0 else None, steps=200)
    assert [finding.blamed_rank for finding in found] == [2]


def test_a_rank_that_stopped_long_ago_is_not_compared() -> None:
    bank, found = train(lambda rank, step: (0.5 if rank == 2 else 0.1) if rank != 2 or step < 8 else None, steps=100)
    assert found == []
    assert bank.verdicts()[Kind.STRAGGLER] == (Verdict.HEALTHY, "3 ranks keep up with each other")


def test_without_busy_times_nothing_is_known() -> None:
    bank, found = train(lambda rank, step: None)
    verdict, reason = bank.verdicts()[Kind.STRAGGLER]
    assert (found, verdict) == ([], Verdict.UNKNOWN)
    assert "busy_s" in reason


def test_fewer_than_half_of_the_ranks_are_no_measure() -> None:
    bank, found = train(lambda rank, step: (0.5 if rank == 2 else 0.1) if rank < 3 else None, ranks=8)
    assert (found, bank.verdicts()[Kind.STRAGGLER][0]) == ([], Verdict.UNKNOWN)


def test_it_is_told_again_only_after_it_kept_up() -> None:
    slow = lambda rank, step: 0.5 if rank == 2 and not 100 <= step < 200 else 0.1  # noqa: E731
    _, found = train(slow, steps=300)
    assert [finding.blamed_rank for finding in found] == [2, 2]
    assert found[0].key != found[1].key
    flapping = lambda rank, step: 0.5 if rank == 2 and step % 60 < 45 else 0.1  # noqa: E731
    assert len(train(flapping, steps=300)[1]) <= 2


def test_a_slow_host_is_one_finding_that_names_its_ranks() -> None:
    _, found = train(lambda rank, step: 0.4 + rank / 100 if rank in (4, 5, 6) else 0.1, ranks=16)
    assert len(found) == 1
    assert found[0].blamed_rank == 6
    assert "slow as well: ranks 4, 5" in found[0].reason


def test_unequal_ranks_of_a_large_world_are_compared_by_their_spread() -> None:
    medians = {rank: 0.1 + 0.1 * (rank % 8) for rank in range(64)}
    assert choose_slow(medians, 1.0, 1.5, 0.1) == {}
    assert list(choose_slow(medians | {7: 3.0}, 1.0, 1.5, 0.1)) == [7]


def test_a_relaunch_begins_anew_and_a_switch_is_obeyed() -> None:
    bank, _ = train(lambda rank, step: 0.5 if rank == 2 else 0.1)
    bank.begin_attempt(2, 100.0)
    assert bank.verdicts()[Kind.STRAGGLER][0] is Verdict.UNKNOWN
    off = DetectorBank(config(straggler=StragglerSettings(enabled=False)), {}, {})
    off.begin_attempt(1, 0.0)
    assert train(lambda rank, step: 0.5 if rank == 2 else 0.1, bank=off)[1] == []
    assert off.verdicts()[Kind.STRAGGLER] == (Verdict.UNKNOWN, "switched off by policy")
