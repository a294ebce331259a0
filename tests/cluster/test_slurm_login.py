"""Sentinel on a login node (deploy/slurm/login.sh): no node of the job has the supervisor, and a chain of jobs is one run."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentinel.model import facts as f
from sentinel.model.findings import Kind
from tests.cluster.cluster_kit import ROOT, Cluster, Listing, Run, attempts_overlap, kill_in_node, tell, wait_for
from tests.cluster.ranked_loop import SAVE_EVERY
from tests.cluster.test_slurm_steps import RANK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@contextmanager
def on_a_login_node(cluster: Cluster, run: Run, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """login.sh as a process of this machine, which is none of the nodes. What it prints goes to the run's log."""
    script = shlex.join(["bash", str(ROOT / "deploy" / "slurm" / "login.sh"), "--ntasks-per-node=1", *options, "--"])
    environ = cluster.environ | {"HOLD_EVERY": "1", "PYTHONPATH": str(ROOT)}
    with run.log.open("ab") as log:
        words = f"exec {script} {run.command}"
        login = subprocess.Popen(["bash", "-c", words], cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        run.job = held_job(run, 1)
        yield login
    finally:
        if login.poll() is None:
            login.terminate()
            login.wait(60)


def held_job(run: Run, number: int) -> str:
    """The number-th job that login.sh got."""

    def jobs() -> list[str]:
        lines = run.log.read_text().splitlines() if run.log.exists() else []
        return [line.split()[1] for line in lines if line.startswith("job ") and " is held" in line]

    wait_for(f"job {number}; {run.tail()}", lambda: len(jobs()) >= number)
    return jobs()[number - 1]


def test_a_hang_is_seen_from_a_login_node_and_ended_before_the_next_attempt(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 400)
    with on_a_login_node(cluster, run, "--nodes=3") as login:
        run.until_step(1, 30)
        stopped_s = time.time()
        with Listing(cluster, run) as listing:
            kill_in_node(cluster, "n2", RANK, signal.SIGSTOP)
            run.until_step(2, 30)
        tell("hang seen from a login node", until_launched=run.time_of(f.AttemptLaunched) - stopped_s)
        first, second = (frozenset({f"0 {run.step_name(number)}"}) for number in (1, 2))
        assert [listing.seen[0], listing.seen[-1], listing.doubles] == [first, second, []], "the old step is gone first"
        assert login.wait(90) == 0, run.tail()
    incidents = [fact.incident for fact in run.of(f.IncidentOpened)]
    assert [(incident.kind, incident.blamed_rank, incident.blamed_node) for incident in incidents] == [(Kind.HANG, 1, "n2")]
    assert not run.of(f.CheckpointCondemned)
    assert len(run.of(f.AttemptLaunched)) == 2
    assert not attempts_overlap(run)
    assert cluster.job_state(run.job) in ("", "COMPLETED", "CANCELLED", "COMPLETING"), "the job is given back"


def test_the_next_job_goes_on_where_one_was_cancelled_or_a_person_asked_for_another(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 100_000)
    with on_a_login_node(cluster, run, "--nodes=2") as login:
        run.until_step(1, 3 * SAVE_EVERY)
        cluster.ask("scancel", run.job)
        run.job = held_job(run, 2)
        run.until_step(2, run.newest_step(1))
        login.send_signal(signal.SIGUSR1)
        run.job = held_job(run, 3)
        wait_for(f"attempt 3; {run.tail()}", lambda: run.newest_step(3) > 0)
        login.terminate()
        assert login.wait(90) == 130, run.tail()
    ended, begun = run.of(f.AttemptEnded), run.of(f.FirstStep)
    assert begun[1].step > ended[0].last_step - SAVE_EVERY
    assert begun[2].step == ended[1].last_step + 1, "a stop that was asked for loses no step"
    assert [fact.epoch for fact in run.of(f.SupervisorTookOver)] == [1, 2, 3]
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)
    assert cluster.steps(run) == []


def test_the_node_of_rank_0_dies_and_the_supervisor_is_not_there(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 4000, 0.05, "--launcher-option", "spares=1")
    cluster.configure(SlurmdTimeout=5, MessageTimeout=3)
    with on_a_login_node(cluster, run, "--nodes=3") as login:
        run.until_step(1, 30)
        off_s = time.time()
        cluster.off("n1")
        run.until_step(2, 30, 120)
        tell("first node off, seen from a login node", until_launched=run.time_of(f.AttemptLaunched) - off_s)
        assert login.poll() is None
        login.terminate()
        assert login.wait(90) == 130, run.tail()
    assert [fact.epoch for fact in run.of(f.SupervisorTookOver)] == [1]
    assert {name.split("-")[1] for name in run.processes(2)} == {"n2", "n3"}
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)
