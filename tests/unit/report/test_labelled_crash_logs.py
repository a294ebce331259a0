"""Launchers' logs of runs that died, with the answers: the labelled ones beside the checkout, and torchrun's of a silent rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sentinel.report.autopsy import examine

LABELLED = Path(__file__).resolve().parents[4] / "shared" / "data" / "crash_logs"
ANSWERS = {
    "torchrun/WORKLOAD_EXC": ("error", 1), "torchrun/ASYNC_EXC": ("error", 1), "torchrun/SIGNAL_EXC": ("error", 1),
    "torchrun/OS_ABORT": ("killed by signal", 1), "torchrun/SEGFAULT": ("killed by signal", 1),
    "torchrun/SIGKILL": ("killed by signal", 1), "torchrun/SIGINT": ("killed by signal", 1),
    "torchrun/SIGTERM": ("preemption", 1), "torchrun/SIGSTOP": ("collective timeout", 1),
    "torchrun/LOCK_GIL": ("collective timeout", 1),
    **{f"fanout/ranks{ranks}": ("out of memory", 5) for ranks in (8, 32, 64, 128)},
}  # fmt: skip
TABLE = "Root Cause (first observed failure)"
WAITED = {
    "gloo": (1, "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to "
                "complete"),
    "nccl": (-6, "[E1122 22:27:15 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
                 "WorkNCCL(SeqNum=81, OpType=ALLREDUCE) ran for 15003 milliseconds before timing out."),
}  # fmt: skip


@pytest.mark.skipif(not LABELLED.is_dir(), reason=f"no labelled crash logs in {LABELLED}")
@pytest.mark.parametrize("has_table", [True, False], ids=["with torchrun's table", "without"])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_labelled_log_is_read_as_it_was(tmp_path: Path, name: str, has_table: bool) -> None:
    text = (LABELLED / f"{name}.log").read_text(errors="replace")
    if not has_table:
        text = re.split(r"(?m)^=+$", text, maxsplit=1)[0]
    log = tmp_path / "run.log"
    log.write_text(text)
    found = examine(log)
    assert (found.crash, found.rank) == ANSWERS[name]


@pytest.mark.skipif(not LABELLED.is_dir(), reason=f"no labelled crash logs in {LABELLED}")
def test_every_labelled_log_has_its_answer_here() -> None:
    assert {str(path.relative_to(LABELLED).with_suffix("")) for path in LABELLED.glob("*/*.log")} == set(ANSWERS)


@pytest.mark.parametrize("has_table", [True, False], ids=["with torchrun's table", "without"])
@pytest.mark.parametrize("backend", WAITED)
@pytest.mark.parametrize("silent", [0, 5])
def test_the_rank_that_all_others_waited_for_is_blamed_though_torchrun_ended_it(
    tmp_path: Path, silent: int, backend: str, has_table: bool
) -> None:
    """It never said anything, and torchrun's SIGTERM is the first that is heard of it."""
    code, words = WAITED[backend]
    ranks = range(8)
    lines = [f"[default{rank}]:step {step} loss 0.1" for step in range(20, 100, 20) for rank in ranks]
    lines += [f"[default{rank}]:[rank{rank}]: {words.format(rank=rank)}" for rank in ranks if rank != silent]
    lines.append(f"W1122 22:27:15 elastic/multiprocessing/api.py:1028] Sending process {1300 + silent} closing signal SIGTERM")
    if has_table:
        ends = {rank: -15 if rank == silent else code for rank in ranks}
        first = next(rank for rank in ranks if rank != silent)
        lines += ["=" * 60, "t.py FAILED", "-" * 60, "Failures:"]
        lines += [row for at, rank in enumerate(r for r in ranks if r != first) for row in entry(at + 1, rank, ends[rank])]
        lines += ["-" * 60, f"{TABLE}:", *entry(0, first, code), "=" * 60]
    log = tmp_path / "run.log"
    log.write_text("\n".join(lines) + "\n")
    found = examine(log)
    assert (found.crash, found.rank, found.blamed) == ("collective timeout", silent, (silent,))


def entry(number: int, rank: int, code: int) -> list[str]:
    return [
        f"[{number}]:", "  time      : 2026-11-22_22:27:15", "  host      : node-0", f"  rank      : {rank} (local_rank: {rank})",
        f"  exitcode  : {code} (pid: {1300 + rank})", "  error_file: <N/A>", "  traceback : -",
    ]  # fmt: skip
