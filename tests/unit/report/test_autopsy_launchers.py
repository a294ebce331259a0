# ruff: noqa: E501 - lines of logs, as printed
"""Deaths as other launchers, schedulers and back ends print them: whom they blame, and whom nobody can blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.detectors.crash_patterns import CrashClass
from sentinel.report.autopsy import examine
from tests.unit.report.death_logs import LOST, OOM, STEPS, TB, by
from tests.unit.report.test_autopsy import written

CANCELLED = "slurmstepd: error: *** STEP 881.0 ON n1 CANCELLED AT 2026-03-01T11:10:00 ***"
TIMED_OUT = (
    "[rank{rank}]:[E301 11:00:00.2 ProcessGroupNCCL.cpp:1664] [PG ID 2 PG GUID {group}(DATA_PARALLEL_GROUP) Rank {place}] Exception (either an error or "
    "timeout) detected by watchdog at work: {work}, last enqueued NCCL work: {work}, last completed NCCL work: 3."
)


def timed_out(*ranks: tuple[int, str, int]) -> str:
    """Of each rank: its group, and how much work it had put in line there."""
    return STEPS + "\n".join(TIMED_OUT.format(rank=rank, group=of, place=rank // 2, work=work) for rank, of, work in ranks) + "\n"


@pytest.mark.parametrize("host", ["gpu-a1", "gpu012", "gpunode3", "cuda-node-7", "torch-worker-2", "p5-dy-gpu-4"])
def test_a_machine_may_be_called_after_its_gpus(tmp_path: Path, host: str) -> None:
    """The label was not taken off, so that no line of the traceback was one, and rank 12's lost peer was the death."""
    text = by(f"{host}: ", STEPS + by("[rank13]: ", TB + "IndexError: list index out of range") + "\n" + by("[rank12]: ", TB + LOST))
    found = examine(written(tmp_path, text))
    assert (found.crash, found.rank) == (CrashClass.ERROR, 13)
    assert found.evidence == "IndexError: list index out of range"


@pytest.mark.parametrize("device", ["gpu3: ", "gpu-3: ", "cuda:0 ", "gpu_mem_0: ", "python3.11: ", "GPU 3: "])
def test_a_device_is_no_machine(tmp_path: Path, device: str) -> None:
    found = examine(written(tmp_path, STEPS + f"{device}CUDA out of memory. Tried to allocate 2 GiB\n"))
    assert (found.evidence or "").startswith(device.strip())


def test_work_in_line_is_compared_within_a_group(tmp_path: Path) -> None:
    """Rank 7 is in a group of its own with three collectives; the others, with 72 in theirs, did not wait for it."""
    alike = [(rank, "5", 72) for rank in range(7)]
    assert examine(written(tmp_path, timed_out(*alike, (7, "31", 3)))).rank is None
    assert examine(written(tmp_path, timed_out(*alike, (7, "5", 71)))).rank == 7


def test_who_waits_in_one_group_is_not_who_is_missing_in_another(tmp_path: Path) -> None:
    """Rank 2 is behind in its data group since it waits for rank 3 in the other."""
    text = timed_out((0, "5", 52), (2, "5", 51), (4, "5", 52), (2, "9", 80), (3, "9", 79))
    assert examine(written(tmp_path, text)).blamed == (3,)
    text = timed_out((0, "5", 52), (2, "5", 51), (4, "5", 52), (1, "6", 80), (3, "6", 79), (5, "6", 80))
    assert examine(written(tmp_path, text)).blamed == ()  # which of the two came first is not known


@pytest.mark.parametrize(
    "tasks",
    ["srun: error: n1: tasks 0-7: Terminated", "srun: error: n2: task 4: Terminated\nsrun: error: n1: tasks 0-3: Terminated"],
)
def test_a_cancelled_job_blames_nobody(tmp_path: Path, tasks: str) -> None:
    text = by("0: ", STEPS) + "\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n" + f"{CANCELLED}\n{tasks}\n"
    found = examine(written(tmp_path, text))
    assert (found.crash, found.rank, found.blamed) == (CrashClass.PREEMPTION, None, ())
    assert "CANCELLED AT" in (found.evidence or "")
    interrupted = "\n".join(by(f"{rank}: ", TB + "KeyboardInterrupt") for rank in range(4))
    assert examine(written(tmp_path, by("0: ", STEPS) + f"\n{interrupted}\n{CANCELLED}\n")).rank is None


def test_a_task_that_fails_after_the_step_was_told_to_end_is_still_first(tmp_path: Path) -> None:
    text = STEPS + f"{CANCELLED}\nsrun: error: n2: task 12: Exited with exit code 1\nsrun: error: n1: tasks 0-11: Terminated\n"
    assert examine(written(tmp_path, text)).rank == 12


RULE = "-" * 74
OMPI = f"{RULE}\nmpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[21713,1],6]\n  Exit code:    {{}}\n{RULE}\n"


@pytest.mark.parametrize(
    ("text", "crash", "rank"),
    [
        (OMPI.format(7), CrashClass.ERROR, 6),
        (OMPI.format(134), CrashClass.KILLED, 6),
        (f"{RULE}\n   Process name: [prterun-gpu-a1-4412@1,5]\n   Exit code:    1\n{RULE}\n", CrashClass.ERROR, 5),
        (
            "ERROR:composer.cli.launcher:Rank 11 crashed with exit code -9.\nGlobal rank 8 (PID 11) exited with code -15\n",
            CrashClass.KILLED,
            11,
        ),
        (
            f"ERROR:composer.cli.launcher:Rank 5 crashed with exit code 1.\n----------Begin global rank 5 STDERR----------\n{TB}RuntimeError: Target 50368 is out of bounds.\n",
            CrashClass.ERROR,
            5,
        ),
        # two agents write into one log: a place on a node is no rank, and the death is one all the same
        (
            "n1: E0301 11:00:00.1 11 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 5 (pid: 12) of binary: /usr/bin/python\n"
            "n0: E0301 11:05:00.1 11 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 2 (pid: 12) of binary: /usr/bin/python\n",
            CrashClass.KILLED,
            None,
        ),
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n", CrashClass.ERROR, 3),
        (f"{by('[rank5]: ', TB + 'ValueError: x')}\nMPI_ABORT was invoked on rank 3 in communicator\n", CrashClass.ERROR, 5),
        ("ORTE has lost communication with a remote daemon.\n", CrashClass.NETWORK, None),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n", CrashClass.PREEMPTION, None),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n", CrashClass.OUT_OF_MEMORY, None),
        ("=>> PBS: job killed: walltime 86405 exceeded limit 86400\n", CrashClass.PREEMPTION, None),
        ("=>> PBS: job killed: mem 527433728kb exceeded limit 524288000kb\n", CrashClass.OUT_OF_MEMORY, None),
        (
            f"[rank6]: Memory access fault by GPU node-4 (Agent handle: 0x55d0) on address 0x7f4b000. Reason: Unknown.\n{by('[rank0]: ', TB + LOST)}\n",
            CrashClass.CUDA_ERROR,
            6,
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 4.50G. That was not possible.\n",
            CrashClass.OUT_OF_MEMORY,
            None,
        ),
        (
            "[rank0]:[F301 11:50:11.1 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 0] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.\n",
            CrashClass.COLLECTIVE_TIMEOUT,
            None,
        ),
        ("Could not override 'model.nlayers'.\nTo append to your config use +model.nlayers=12\n", CrashClass.CONFIGURATION, None),
    ],
)
def test_other_launchers_schedulers_and_back_ends(tmp_path: Path, text: str, crash: CrashClass, rank: int | None) -> None:
    found = examine(written(tmp_path, STEPS + text))
    assert (found.crash, found.rank) == (crash, rank)


def test_transformers_own_last_word_ends_a_run_well(tmp_path: Path) -> None:
    """It says "Do not forget …", and `not` was taken for a training that did not complete."""
    text = STEPS + by("[rank3]: ", TB + "BrokenPipeError: [Errno 32] Broken pipe")
    end = "\n\nTraining completed. Do not forget to share your model on huggingface.co/models =)\n\n"
    assert examine(written(tmp_path, text)).crash is CrashClass.PEER_LOST
    assert examine(written(tmp_path, text + end)).crash is None
    assert examine(written(tmp_path, text + "\nTraining completed: not saved\n" + by("[rank3]: ", TB + OOM))).crash is not None
