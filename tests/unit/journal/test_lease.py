"""One run, one supervisor: on this machine by a lock that dies with its holder, elsewhere by a lease that grows old."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME, LEASE_NAME, LOCK_NAME
from sentinel.errors import AlreadySupervised, UsageError
from sentinel.journal.identity import ProcessIdentity, read_own_identity
from sentinel.journal.lease import Lease, LeaseRecord, read_lease
from sentinel.journal.run_lock import RunLock
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model.facts import Held
from sentinel.run_files.cluster_job import ClusterJob

HOLDER = """
import os, subprocess, sys
from pathlib import Path
from sentinel.journal.session import take_run

session = take_run(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "300"])
os.write(1, b"%d\\n" % child.pid)
sys.stdin.read()
"""

ELSEWHERE = ProcessIdentity("node-17", 4242, 1000.0, "another-boot")


@contextmanager
def supervisor(run_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Another process that holds the run, and the pid of a child it started."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0], "the supervisor is stuck"
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


def write_lease(run_dir: Path, holder: ProcessIdentity, *, epoch: int = 1, age_s: float = 0.0, **more: object) -> None:
    """`holder` has the run: its epoch was claimed before its lease was written."""
    with Journal.open(run_dir / JOURNAL_NAME) as journal:
        while journal.epoch() < epoch:
            journal.claim_epoch()
    path = run_dir / LEASE_NAME
    plain = {"epoch": epoch, "host": holder.host, "pid": holder.pid, "create_time": holder.create_time}
    path.write_text(json.dumps({**plain, "boot_id": holder.boot_id, "attempt": 3, **more}))
    now_s = path.stat().st_mtime
    os.utime(path, (now_s - age_s, now_s - age_s))


# -- taking a run --------------------------------------------------------------------------------------------------------


def test_a_run_is_taken_with_lock_journal_epoch_and_lease(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        assert session.epoch == session.journal.epoch() == 1
        assert read_lease(tmp_path) == LeaseRecord(1, read_own_identity(), 0)
        stored = json.loads((tmp_path / LEASE_NAME).read_text())
        assert list(stored) == [
            "epoch", "host", "pid", "create_time", "boot_id", "since_boot_s", "pid_namespace", "attempt", "launch",
            "renewed_boot_s",
        ]  # fmt: skip


def test_a_second_supervisor_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    with take_run(tmp_path) as first:
        with pytest.raises(AlreadySupervised) as told:
            take_run(tmp_path)
        for part in (str(tmp_path), f"pid {os.getpid()}", f"sentinel stop {tmp_path}"):
            assert part in str(told.value)
        assert isinstance(told.value, UsageError)
        first.journal.append(1.0, [Held("still mine")], first.epoch)
        assert not first.lease.is_lost()


def test_a_successor_has_a_higher_epoch_and_knows_the_attempt(tmp_path: Path) -> None:
    with take_run(tmp_path) as first:
        first.lease.set_attempt(5)
    with take_run(tmp_path) as second:
        assert (second.epoch, second.lease.attempt) == (2, 5)
        assert json.loads((tmp_path / LEASE_NAME).read_text()).get("released") is None


def test_a_run_whose_journal_cannot_be_opened_is_let_go_again(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_NAME).mkdir()
    with pytest.raises(Exception, match="is a folder, not a regular file"):
        take_run(tmp_path)
    RunLock.acquire(tmp_path).release()


def test_a_supervisor_in_another_process_is_named(tmp_path: Path) -> None:
    with supervisor(tmp_path) as (process, _), pytest.raises(AlreadySupervised, match=f"pid {process.pid} on "):
        take_run(tmp_path)


def test_kill_9_frees_the_run_though_a_child_of_the_supervisor_lives_on(tmp_path: Path) -> None:
    with supervisor(tmp_path) as (process, child):
        process.kill()
        process.wait(30)
        os.kill(child, 0)  # alive
        with take_run(tmp_path) as session:
            assert session.epoch == 2


def test_a_living_supervisor_keeps_the_run_when_somebody_deletes_its_lock_file(tmp_path: Path) -> None:
    with supervisor(tmp_path) as (process, _):
        (tmp_path / LOCK_NAME).unlink()
        with pytest.raises(AlreadySupervised, match=f"pid {process.pid}"):
            take_run(tmp_path)


def test_a_missing_or_forbidden_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: cannot be supervised: No such file"):
        RunLock.acquire(tmp_path / "nowhere")


# -- supervisors on other machines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("age_s", [0, 30, 59, -3600])
def test_a_lease_renewed_elsewhere_within_a_minute_is_respected(tmp_path: Path, age_s: float) -> None:
    write_lease(tmp_path, ELSEWHERE, age_s=age_s)
    with pytest.raises(
        AlreadySupervised, match=r"pid 4242 on node-17, which renewed its lease \d+ s ago; run there: sentinel stop"
    ):
        take_run(tmp_path)
    with Journal.open(tmp_path / JOURNAL_NAME, read_only=True) as journal:
        assert journal.epoch() == 1, "no epoch was claimed"


def test_a_lease_not_renewed_elsewhere_for_a_minute_is_taken_over(tmp_path: Path) -> None:
    write_lease(tmp_path, ELSEWHERE, age_s=61)
    with take_run(tmp_path) as session:
        assert session.lease.attempt == 3


def test_a_lease_released_elsewhere_is_taken_over_at_once(tmp_path: Path) -> None:
    write_lease(tmp_path, ELSEWHERE, released=True)
    take_run(tmp_path).close()


JOB = {"id": "slurm/big/4711", "restarts": 1}


@pytest.mark.parametrize(("restarts", "number", "is_taken"), [("2", "4711", True), ("1", "4711", False), ("2", "4712", False)])
def test_a_job_that_was_put_back_in_the_queue_takes_over_from_its_own_earlier_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: str, number: str, is_taken: bool
) -> None:
    write_lease(tmp_path, ELSEWHERE, job=JOB)
    for name, value in (("JOB_ID", number), ("RESTART_COUNT", restarts), ("CLUSTER_NAME", "big")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    if is_taken:
        with take_run(tmp_path):
            record = read_lease(tmp_path)
            assert record is not None
            assert record.job == ClusterJob("slurm/big/4711", 2)
    else:
        with pytest.raises(AlreadySupervised) as refused:
            take_run(tmp_path)
        assert refused.value.is_elsewhere


@pytest.mark.parametrize("job", ["4711", {"id": 4711, "restarts": 0}, {"id": "a"}, {"id": "a", "restarts": True}, []])
def test_what_is_no_job_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: object) -> None:
    write_lease(tmp_path, ELSEWHERE, job=job)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "9")
    with pytest.raises(AlreadySupervised):
        take_run(tmp_path)


def test_a_supervisor_of_this_machine_is_not_waited_for(tmp_path: Path) -> None:
    with supervisor(tmp_path), pytest.raises(AlreadySupervised) as refused:
        take_run(tmp_path)
    assert not refused.value.is_elsewhere


def test_a_dead_supervisor_of_this_boot_is_succeeded_at_once_whatever_its_host_was_called(tmp_path: Path) -> None:
    me = read_own_identity()
    write_lease(tmp_path, ProcessIdentity("old-container", me.pid, me.create_time - 100, me.boot_id))
    take_run(tmp_path).close()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "[" * 200_000, '{"epoch":"high"}', '{"epoch":1,"host":1,"pid":1,"create_time":1,"boot_id":1}'],
    ids=range(7),
)
def test_a_damaged_lease_proves_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / LEASE_NAME).write_text(text)
    assert read_lease(tmp_path) is None
    take_run(tmp_path).close()


def test_a_fifo_under_the_name_of_the_lease_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lease.json")
    with RunLock.acquire(tmp_path) as lock:
        Lease.publish(lock, 1)
    assert read_lease(tmp_path) is not None


def test_an_epoch_that_no_run_comes_near_is_no_lease(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path) as lock:
        Lease.publish(lock, 1)
    path = tmp_path / LEASE_NAME
    path.write_text(path.read_text().replace('"epoch":1', f'"epoch":{2**63 - 1}'))
    assert read_lease(tmp_path) is None
