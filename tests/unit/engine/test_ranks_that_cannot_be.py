"""What speaks for a rank that the attempt cannot have, by its receipt: it is not heard, not counted, and not blamed. And a sick
node on which no rank is: no reason to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.attempts import Exited, ExitReport, RankElsewhere, RankExit, Unseen
from sentinel.model.findings import Kind
from sentinel.model.readings import FlightRecords, HardwareReading, Heartbeat, LogTail, Receipt, SilentRank
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.builders import Bench

CUDA = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
HUNG_S = 10_000.0


def begun(*early: tuple[int, int]) -> Bench:
    """A run of two ranks on a host that is called vm. `early`: (rank, step), heard on `ghost` before the receipt."""
    bench = Bench(load_policy(shipped_policy_path("demo"))).launched(receipt=False)
    for rank, step in early:
        bench.tell(Heartbeat(bench.number, rank, step, "checkpoint", bench.now_s, host="ghost"))
    bench.receipt()
    return bench


def beats(bench: Bench, step: int) -> Bench:
    for rank in (0, 1):
        bench.tell(Heartbeat(bench.number, rank, step, "forward", bench.now_s, host="vm"))
    return bench


def hung(bench: Bench) -> Bench:
    bench.now_s += HUNG_S
    bench.tick()
    return bench


@pytest.mark.parametrize("is_early", [True, False])
def test_a_rank_that_cannot_be_is_not_blamed_for_a_hang(is_early: bool) -> None:
    bench = begun((7, 5)) if is_early else begun()
    if not is_early:
        bench.tell(Heartbeat(bench.number, 7, 5, "forward", bench.now_s, host="ghost"))
    bench.steps(1, 50)
    beats(bench, 50)
    bench.tell(SilentRank(bench.number, 7, "stopped"))
    bench.tell(FlightRecords(bench.number, {7: ()}))
    hung(bench)
    assert bench.incident.kind is Kind.HANG
    assert (bench.incident.blamed_rank, bench.incident.blamed_node) == (None, "")
    assert "2/2 ranks silent" in bench.incident.reason
    assert "rank 7" not in bench.incident.reason


def test_what_it_said_before_the_receipt_is_forgotten() -> None:
    bench = begun((7, 10**6))
    live = bench.engine._live
    assert (live.nodes, live.has_beats, live.is_checkpointing) == (frozenset(), False, False)
    assert bench.engine.detectors.furthest_step == 0
    beats(bench, 3)
    bench.tell(Heartbeat(bench.number, 2, 10**6, "forward", bench.now_s, host="ghost"))
    assert bench.engine.detectors.furthest_step == 3
    assert live.nodes == {"vm"}


def test_ranks_are_heard_as_they_come_where_nobody_says_how_many_there_are() -> None:
    bench = Bench().launched(receipt=False)
    bench.tell(Receipt(bench.number, bench.now_s, 0, None, 1, {}, {}, is_size_known=False))
    for rank in range(4):
        bench.tell(Heartbeat(bench.number, rank, 1, "forward", bench.now_s, host=f"n{rank}"))
    assert len(bench.engine._live.nodes) == 4


def test_the_next_attempt_has_the_ranks_of_its_own_receipt() -> None:
    bench = beats(begun(), 1)
    bench.exits(signal=9)
    bench.launched(receipt=False)
    attempt = bench.number
    bench.tell(Receipt(attempt, bench.now_s, 0, None, 4, {}, {}))
    for rank in range(6):
        bench.tell(Heartbeat(attempt, rank, 1, "forward", bench.now_s, host=f"n{rank}"))
    assert bench.engine._live.nodes == {"n0", "n1", "n2", "n3"}


def test_its_exit_record_is_not_believed() -> None:
    bench = beats(begun(), 1)
    bench.steps(1, 30)
    forged = RankExit(3, 1, None, "record", error=CUDA)
    bench.tell(LogTail(bench.number, 3, (CUDA,)))
    died = (RankExit(0, None, 9, "reaped"), RankExit(1, None, 15, "reaped"), forged)
    bench.seen(Exited(bench.number, ExitReport(None, died, 3)))
    assert bench.incident.kind is Kind.CRASH
    assert bench.incident.blamed_rank == 0
    assert "CUDA" not in bench.incident.reason
    assert "rank 3" not in bench.incident.reason
    assert [rank.rank for rank in bench.of(f.AttemptEnded)[-1].ranks] == [0, 1]


def test_without_a_receipt_every_exit_record_counts() -> None:
    bench = Bench().launched(receipt=False)
    bench.seen(Exited(bench.number, ExitReport(1, (RankExit(0, None, 15, "record"), RankExit(3, 1, None, "record")), 3)))
    assert [rank.rank for rank in bench.of(f.AttemptEnded)[-1].ranks] == [0, 3]


def test_a_rank_that_cannot_be_is_not_blamed_for_an_end_that_nothing_proves() -> None:
    bench = beats(begun(), 1)
    bench.steps(1, 20)
    ghost, own = RankElsewhere(7, "ghost"), RankElsewhere(1, "node-b")
    bench.seen(Unseen(bench.number, "its end is not proven", ranks=(ghost,), has_ended_here=True))
    bench.tick(400.0)
    assert (bench.incident.kind, bench.incident.blamed_rank, bench.incident.blamed_node) == (Kind.UNSEEN, None, "")
    other = beats(begun(), 1)
    other.steps(1, 20)
    other.seen(Unseen(other.number, "its end is not proven", ranks=(ghost, own), has_ended_here=True))
    other.tick(400.0)
    assert (other.incident.blamed_rank, other.incident.blamed_node) == (1, "node-b")


XID = HardwareReading("kernel_log", "xid", "Xid 79", "spare1", "0000:3b:00", 79.0, by_agent=True, saw_no_rank=True)


def test_a_gpu_that_fails_where_no_rank_is_stops_nothing() -> None:
    bench = beats(begun((0, 1), (1, 1)), 1)  # which were on another host, as far as was known
    bench.steps(1, 60).checkpoint(50)
    bench.tell(XID)
    bench.tick(1.0)
    bench.tick(1.5)
    assert [one.kind for one in bench.state.incidents] == [Kind.HARDWARE_WARNING]
    assert bench.incident.blamed_node == "spare1"
    assert bench.state.plan is None
    assert not [action for action in bench.state.pending if action.startswith("kill")]


def test_one_where_a_rank_is_does() -> None:
    bench = beats(begun(), 1)
    bench.steps(1, 60).checkpoint(50)
    bench.tell(replace(XID, host="vm"))
    bench.tick(1.0)
    bench.tick(1.5)
    assert [one.kind for one in bench.state.incidents] == [Kind.GPU_FAULT]
