"""What the end of a launching command says of what it started on other machines."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.launcher.process_tree import Process, read_process
from sentinel.launcher.waiting_clients import GRACE_S, SoftEnd, client_name, end_clients, why_not_vouched

SRUN = ["srun", "--overlap", "--nodes=2", "bash", "-c", "exec python -m trainer"]
KILLED = "srun: error: n2: task 1: Killed\nsrun: Terminating StepId=71.2\n"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (SRUN, "srun"),
        (["/opt/slurm/bin/srun", "train.sh"], "srun"),
        (["nice", "-n", "10", "srun", "train.sh"], "srun"),
        (["env", "NCCL_DEBUG=INFO", "timeout", "-k", "30s", "2h", "mpirun", "train"], "mpirun"),
        (["docker", "run", "--rm", "image"], "docker"),
        (["torchrun", "--nnodes=2", "train.py"], ""),
        (["python", "train.py", "--launcher", "srun"], ""),
        (["bash", "train.sh"], ""),
        (["nice", "python", "srun"], ""),
        ([], ""),
    ],
)
def test_the_client_is_found_behind_wrappers_and_nowhere_else(argv: list[str], name: str) -> None:
    assert client_name(argv) == name


@pytest.mark.parametrize("status", [0, 1, 137, 143])
def test_a_client_that_ended_by_itself_vouches_whatever_it_returned(status: int) -> None:
    assert why_not_vouched(SRUN, status, KILLED) == ""


def test_a_client_that_was_killed_vouches_for_nothing() -> None:
    assert "srun was killed before it could end what it had started" in why_not_vouched(SRUN, -9, KILLED)


def test_whose_end_nobody_saw_vouches_for_nothing() -> None:
    assert "nobody saw how srun ended" in why_not_vouched(SRUN, None, "")


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Timed out waiting for job step to complete",
        "srun: error: Error waiting on condition in slurm_step_launch_wait_finish: Interrupted system call",
        "ORTE has lost communication with a remote daemon.",
    ],
)
def test_one_that_says_that_it_left_something_behind_does_not_vouch(line: str) -> None:
    assert line[:40] in why_not_vouched(SRUN, 143, f"srun: error: n2: task 1: Killed\n{line}\n")


@pytest.mark.parametrize("argv", [["bash", "train.sh"], ["torchrun", "--nnodes=2", "train.py"]])
def test_a_command_that_is_not_known_to_wait_does_not_vouch(argv: list[str]) -> None:
    assert "not known to wait" in why_not_vouched(argv, 1, "Traceback (most recent call last):\n")


def test_srun_inside_a_script_is_known_by_what_it_says_of_its_tasks() -> None:
    assert why_not_vouched(["bash", "train.sh"], 1, "srun: error: n2: task 1: Exited with exit code 1\n") == ""
    assert why_not_vouched(["bash", "train.sh"], -9, "srun: error: n2: task 1: Exited with exit code 1\n") != ""


# Before it is killed.


@pytest.fixture
def named(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A process that is called srun, and one that is not."""
    running = {}
    for name in ("srun", "python3"):
        shutil.copy("/bin/sleep", tmp_path / name)
        running[name] = subprocess.Popen([str(tmp_path / name), "60"])
    yield running
    for process in running.values():
        process.kill()
        process.wait()


def seen(process: subprocess.Popen[bytes]) -> Process:
    found = read_process(process.pid)
    assert found is not None
    return found


def test_a_client_is_asked_once_and_spared_until_its_time_is_over(named: dict[str, subprocess.Popen[bytes]]) -> None:
    soft_end, client = SoftEnd(), seen(named["srun"])
    assert soft_end.spares(client, 100.0)
    assert named["srun"].wait(10) == -signal.SIGTERM
    assert soft_end.spares(client, 100.0 + GRACE_S - 1.0)
    assert not soft_end.spares(client, 100.0 + GRACE_S)


def test_nothing_else_is_spared(named: dict[str, subprocess.Popen[bytes]]) -> None:
    assert not SoftEnd().spares(seen(named["python3"]), 100.0)
    assert named["python3"].poll() is None, "and nothing was sent to it"


def test_clients_without_a_keeper_are_asked_and_waited_for(named: dict[str, subprocess.Popen[bytes]]) -> None:
    processes = tuple(map(seen, named.values()))
    assert end_clients(lambda: processes) == processes[:1]
    assert named["srun"].wait(10) == -signal.SIGTERM
    assert named["python3"].poll() is None


def test_without_a_client_nobody_vouches() -> None:
    assert end_clients(lambda: ()) == ()
