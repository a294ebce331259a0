# ruff: noqa: E501 - lines of logs, as printed
"""Whom an autopsy blames: the numbers in the names of logs, lines without a rank, who is waited for; and the words of a NaN."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.detectors.crash_patterns import CrashClass
from sentinel.report.autopsy import examine
from tests.unit.report.death_logs import LOST, OOM, STEPS, TB, by
from tests.unit.report.test_autopsy import written

WAITS = (
    "[E1120 10:10:00.000 ProcessGroupNCCL.cpp:616] [{group}Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)


def died(rank: int | None, line: str, label: str = "[rank{}]: ") -> str:
    return by("" if rank is None else label.format(rank), TB + line) + "\n"


def waits(numbers: dict[int, int], group: str = "") -> str:
    lines = (f"[rank{rank}]:{WAITS.format(rank=rank, number=number, group=group)}" for rank, number in numbers.items())
    return STEPS + "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["worker-{}.log", "node_rank_{}.log", "logs/rank{}.out"])
@pytest.mark.parametrize(("label", "expected"), [("[rank{}]: ", 11), ("[default{}]:[rank{}]: ", 11), ("[default{}]:", None)])
def test_the_number_of_a_node_is_no_rank(tmp_path: Path, name: str, label: str, expected: int | None) -> None:
    """`worker-1.log` holds eight ranks: rank 1 was blamed for the death of rank 11."""
    is_role = label == "[default{}]:"

    def labelled(rank: int) -> str:
        return label.format(rank % 8) if is_role else label.format(rank, rank)

    written(tmp_path, STEPS + "".join(by(labelled(rank), TB + LOST) + "\n" for rank in range(3)), name.format(0))
    written(tmp_path, by(labelled(11), TB + OOM) + "\n" + by(labelled(12), TB + LOST) + "\n", name.format(1))
    found = examine(tmp_path)
    assert (found.crash, found.rank) == (CrashClass.OUT_OF_MEMORY, expected)


@pytest.mark.parametrize("place", ["node{}/attempt_0/{}/stderr.log", "node{}/local_rank_{}.log", "node{}/rank{}.err"])
def test_a_place_on_a_node_is_no_rank_where_several_nodes_have_it(tmp_path: Path, place: str) -> None:
    for node in range(2):
        for local in range(4):
            written(tmp_path, TB + (OOM if (node, local) == (1, 2) else LOST) + "\n", place.format(node, local))
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.blamed) == (CrashClass.OUT_OF_MEMORY, None, ())
    for node in range(2):
        for local in range(4):
            written(tmp_path, died(4 * node + local, OOM if (node, local) == (1, 2) else LOST), place.format(node, local))
    assert examine(tmp_path).rank == 6


def test_what_a_rank_wrote_into_several_files_is_one_rank_s(tmp_path: Path) -> None:
    for rank in range(4):
        written(tmp_path, STEPS, f"stdout/rank_{rank}.log")
        written(tmp_path, TB + (OOM if rank == 2 else LOST) + "\n", f"stderr/rank_{rank}.log")
    assert examine(tmp_path).rank == 2


def test_the_number_of_a_job_is_no_rank(tmp_path: Path) -> None:
    written(tmp_path, STEPS, "log-8812.out")
    written(tmp_path, TB + OOM + "\n", "log-8812.err")
    assert (examine(tmp_path).crash, examine(tmp_path).rank) == (CrashClass.OUT_OF_MEMORY, None)
    written(tmp_path, died(3, OOM) + died(0, LOST), "log-8812.err")
    assert examine(tmp_path).rank == 3


def test_who_repeats_the_line_without_a_label_wrote_it(tmp_path: Path) -> None:
    """DeepSpeed's runner puts the host before it, torch's hook the rank, and the program prints the first one itself."""
    text = STEPS + died(None, OOM, "worker-1: ") + by("worker-1: ", TB + OOM) + "\n" + died(11, OOM, "worker-1: [rank{}]: ") + died(0, LOST)
    assert examine(written(tmp_path, text)).rank == 11


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("RuntimeError: CUDA error: unspecified launch failure", 3),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", None),
    ],
)
def test_what_the_kernel_says_of_a_gpu_is_the_one_rank_s_whose_own_gpu_failed(tmp_path: Path, error: str, expected: int | None) -> None:
    xid = "[12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = examine(written(tmp_path, STEPS + xid + died(3, error) + died(0, LOST)))
    assert (found.crash, found.rank) == (CrashClass.LOST_GPU, expected)
    two = examine(written(tmp_path, STEPS + xid + died(3, error) + died(4, error) + died(0, LOST)))
    assert (two.crash, two.rank) == (CrashClass.LOST_GPU, None)


@pytest.mark.parametrize(
    ("numbers", "group", "expected"),
    [
        ({rank: 8123 - (rank == 6) for rank in range(8)}, "", (6,)),
        ({rank: 8123 - (rank == 6) for rank in range(8)}, "PG ID 0 PG GUID 0(default_pg) ", (6,)),
        ({rank: 8123 - (rank == 6) for rank in range(8)}, "PG 3 ", ()),  # each rank has a third group of its own
        (dict.fromkeys(range(8), 8123), "", ()),
        ({rank: 8123 for rank in range(8) if rank != 3}, "", (3,)),  # eight ranks, and one of them says nothing
        ({rank: 8123 for rank in range(8) if rank not in (3, 4)}, "", ()),
        ({0: 8123, 1: 8123, 3: 8123}, "", ()),  # of four ranks, or of more that say nothing
    ],
)
def test_who_is_waited_for_by_what_the_watchdogs_say(tmp_path: Path, numbers: dict[int, int], group: str, expected: tuple[int, ...]) -> None:
    found = examine(written(tmp_path, waits(numbers, group)))
    assert (found.crash, found.blamed) == (CrashClass.COLLECTIVE_TIMEOUT, expected)


@pytest.mark.parametrize(
    ("end", "rank"),
    [
        ("=   RANK 6 PID 3211 RUNNING AT node4\n=   KILLED BY SIGNAL: 9 (Killed)\n", 6),
        ("=   PID 3211 RUNNING AT node4\n=   EXIT CODE: 9\n", None),
    ],
)
def test_mpich_says_who_was_killed(tmp_path: Path, end: str, rank: int | None) -> None:
    bar = "=" * 83 + "\n"
    found = examine(written(tmp_path, STEPS + bar + "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n" + end + bar))
    assert found.rank == rank


@pytest.mark.parametrize(
    "words",
    [
        "ValueError: Training loss exploded to inf at iteration 3021", "RuntimeError: Gradients contain NaN or Inf values",
        "AssertionError: loss nan", "ValueError: loss=nan, terminate", "ValueError: loss has NaNs", "ValueError: `loss` is `nan`",
        "RuntimeError: tensor has nan values in backward of transformer.h.3", "SystemExit: grad_norm is nan",
        "RuntimeError: Loss scaler reached minimum loss scale, gradients overflow", "CRITICAL:root:loss=nan at step 31, aborting",
        "E1120 10:00:00.123456 140 train.py:33] loss diverged to nan", "ValueError: inf loss encountered",
        "RuntimeError: Detected NaN in model outputs", "ERROR:root:NaN found in train_loss at step 30",
        "ERROR:root:train_loss became nan; stopping early",
    ],
)  # fmt: skip
def test_a_death_by_nan_in_a_trainer_s_own_words(tmp_path: Path, words: str) -> None:
    found = examine(written(tmp_path, STEPS + died(7, words)))
    assert (found.crash, found.rank) == (CrashClass.NON_FINITE, 7)


@pytest.mark.parametrize(
    "words",
    [
        "ValueError: cannot convert float NaN to integer", "RuntimeError: infinite recursion in forward",
        "ValueError: Input contains NaN, infinity or a value too large for dtype('float32').", "ValueError: parameter max_norm is inf",
        "AttributeError: module 'torch' has no attribute 'nan' in loss.py", "ValueError: gradient_clip_val should be a float, got 'inf'",
        "TypeError: clip_grad_norm_() got an unexpected keyword argument 'error_if_nonfinite'",
        "RuntimeError: The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1",
    ],
)  # fmt: skip
def test_and_what_only_sounds_like_one(tmp_path: Path, words: str) -> None:
    found = examine(written(tmp_path, STEPS + died(7, words)))
    assert (found.crash, found.rank) == (CrashClass.ERROR, 7)


def test_a_rank_in_the_middle_of_a_logger_s_line(tmp_path: Path) -> None:
    end = "2026-11-20 10:00:00.123 | ERROR    | train:main:33 - [rank 3] CUDA out of memory. Tried to allocate 20.00 MiB\n"
    assert examine(written(tmp_path, STEPS + end)).rank == 3
