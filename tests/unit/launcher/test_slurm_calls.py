"""Slurm's commands as they are called: each ends by its deadline, whole, and is read whole. Doubles that are shell scripts."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from sentinel.launcher import asking
from sentinel.launcher.slurm.calls import RealCalls
from sentinel.launcher.slurm.variables import for_client


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(asking, "LEAVE_S", 0.2)
    return tmp_path


def write(programs: Path, name: str, body: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{body}\n")
    (programs / name).chmod(0o755)


def is_living(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_answer_is_output_errors_and_status(programs: Path) -> None:
    write(programs, "squeue", 'echo "$@"; echo oh >&2; exit 3')
    reply = RealCalls(20.0, 8.0).steps("71")
    assert (reply.status, reply.errors) == (3, "oh\n")
    assert reply.output.startswith("--steps --noheader --jobs 71 --Format jobid:32,stepid:64,stepname:128,stepstate:32,nodes:")


def test_what_does_not_end_in_time_is_ended_with_all_that_it_started(programs: Path) -> None:
    write(programs, "squeue", f"trap : TERM; sleep 600 & echo $! >{programs}/pid; while :; do wait; done")
    reply = RealCalls(0.5, 8.0).steps("71")
    assert reply.status is None
    assert "did not end in time" in reply.trouble
    assert not is_living(int((programs / "pid").read_text()))


def test_a_program_that_is_not_there_is_an_answer_too(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    assert "cannot be run" in RealCalls(20.0, 8.0).cancel("71.3").trouble


def test_neither_secrets_nor_personal_habits_reach_them(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(programs, "squeue", "env")
    for name in ("SECRET", "SQUEUE_USERS", "SCANCEL_INTERACTIVE", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    output = RealCalls(20.0, 8.0, frozenset({"SECRET"})).job("71").output
    assert [name for name in ("SECRET", "SQUEUE_USERS", "SCANCEL_INTERACTIVE", "SLURM_CONF") if f"{name}=" in output] == [
        "SLURM_CONF"
    ]


# What a person's shell, or what sbatch was told, sets: each of them made every node silent (Slurm 22.05).
SRUN_HABITS = (
    "SLURM_LABELIO",
    "SLURM_STDOUTMODE",
    "SLURM_EXPORT_ENV",
    "SRUN_CPUS_PER_TASK",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_GRES",
)


def test_a_probe_is_not_changed_by_what_the_job_was_submitted_with(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(programs, "srun", f'env | grep -E "^S(LURM|RUN)_"; echo "$@" >{programs}/words')
    for name in (*SRUN_HABITS, "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    assert RealCalls(20.0, 8.0).probe("71", ["n1"], []).output == "SLURM_CONF=x\n"
    assert "--export=ALL" in (programs / "words").read_text()


def test_where_a_standby_stands_does_not_place_the_ranks() -> None:
    """Slurm 22.05: they would be bound to the core of the standby, all of them."""
    of_step = {
        "SLURM_CPU_BIND_LIST": "0x1",
        "SLURM_CPU_BIND": "mask_cpu:0x1",
        "SLURM_MEM_BIND": "local",
        "SLURM_DISTRIBUTION": "cyclic",
    }
    told = {"SLURM_GPUS_PER_NODE": "8", "PATH": "/bin"}
    assert for_client(of_step | told, frozenset()) == of_step | told, "of a batch script: what sbatch was told"
    assert for_client(of_step | told | {"SLURM_STEP_ID": "3"}, frozenset()) == told | {"SLURM_STEP_ID": "3"}
    assert for_client(told | {"SLURM_NTASKS_PER_GPU": "1", "SECRET": "x"}, frozenset({"SECRET"})) == told


def test_a_probe_is_over_when_every_node_has_answered(programs: Path) -> None:
    """srun itself waits on for the end of a dead node."""
    write(programs, "srun", 'echo "sentinel-probe|n1||"; echo "sentinel-probe|n2||"; exec sleep 600')
    reply = RealCalls(20.0, 60.0).probe("71", ["n1", "n2"], [])
    assert reply.output.count("sentinel-probe|") == 2


def test_of_a_probe_whose_time_is_up_what_came_counts(programs: Path) -> None:
    write(programs, "srun", 'echo "sentinel-probe|n1||"; exec sleep 600')
    reply = RealCalls(20.0, 0.5).probe("71", ["n1", "n2"], [])
    assert reply.status is None
    assert "sentinel-probe|n1||" in reply.output


def test_an_answer_that_is_longer_than_is_read_is_none(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REPLY_BYTES_MAX", 10)
    write(programs, "squeue", "echo 0123456789")
    reply = RealCalls(20.0, 8.0).steps("71")
    assert reply.is_cut
    assert "more than was read" in reply.trouble
