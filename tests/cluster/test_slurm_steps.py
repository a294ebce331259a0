"""The launcher `slurm` on a real Slurm whose nodes are isolated. `make cluster-test` runs it; a run takes half a minute."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from sentinel.model import facts as f
from sentinel.model.findings import Kind
from tests.cluster.cluster_kit import Cluster, Listing, Run, attempts_overlap, kill_in_node, ready_script, tell, wait_for

RANK = r"^[^ ]*python[^ ]* [^ ]*ranked_loop\.py"  # the rank alone: the shell in front of it names the file, too
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_three_nodes_from_start_to_finish(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 60)
    cluster.submit(run)
    assert run.until_left() == 0, run.tail()
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["finished"]
    hosts = {name.split("-")[1] for name in run.processes(1)}
    assert hosts == {"n1", "n2", "n3"}
    assert len(run.processes(1)) == 3
    assert cluster.steps(run) == []


def test_a_stop_leaves_no_step(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 5000)
    cluster.submit(run)
    run.until_step(1, 20)
    began_s = time.time()
    kill_in_node(cluster, "n1", "sentinel run", signal.SIGINT)
    assert run.until_left() == 130, run.tail()
    tell("stop", until_left=time.time() - began_s)
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["stopped"]
    assert cluster.steps(run) == []


def test_a_remote_rank_that_is_killed_is_blamed_and_costs_one_rung(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 400)
    cluster.submit(run)
    run.until_step(1, 30)
    killed_s = time.time()
    kill_in_node(cluster, "n2", RANK)
    run.until_step(2, 30)
    tell("remote rank killed", until_launched=run.time_of(f.AttemptLaunched) - killed_s)
    cluster.ask("scancel", run.job)
    incidents = [fact.incident for fact in run.of(f.IncidentOpened)]
    assert [(incident.kind, incident.blamed_rank, incident.blamed_node) for incident in incidents] == [(Kind.CRASH, 1, "n2")]
    assert len(run.of(f.RungTaken)) == 1
    assert not run.of(f.CheckpointCondemned)
    assert len(run.of(f.AttemptLaunched)) == 2
    assert not attempts_overlap(run)


def test_ranks_train_on_when_their_client_is_killed(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 200)
    cluster.submit(run)
    run.until_step(1, 30)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: one process of srun cancels the step for the other
        kill_in_node(cluster, "n1", f"^srun.*--job-name {run.step_name(1)} ", number)
    assert run.until_left() == 0, run.tail()
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["finished"]
    assert not run.of(f.IncidentOpened)
    assert len(run.processes(1)) == 3


# How long Slurm takes to give a node up is its own: by these two settings. The rest is ours.
@pytest.mark.parametrize(("slurmd_s", "message_s"), [(10, 10), (5, 3)])
def test_a_node_that_is_powered_off_is_replaced_by_the_spare(
    cluster: Cluster, runs: Path, slurmd_s: int, message_s: int
) -> None:
    cluster.configure(SlurmdTimeout=slurmd_s, MessageTimeout=message_s)
    run = Run(runs / "run", 4000, 0.05, "--launcher-option", "spares=1", "--with", "exclude")
    cluster.submit(run)
    run.until_step(1, 30)
    off_s = time.time()
    cluster.off("n2")
    run.until_step(2, 30, 150)
    down_s = float(_time_in_log(cluster, "Removing failed node n2") or 0.0)
    tell(
        f"node off, SlurmdTimeout {slurmd_s} s, MessageTimeout {message_s} s", until_given_up=down_s - off_s,
        until_ended=run.time_of(f.AttemptEnded) - off_s, until_launched=run.time_of(f.AttemptLaunched) - off_s,
    )  # fmt: skip
    assert 0.0 < down_s <= run.time_of(f.AttemptEnded), "nothing is concluded from silence"
    cluster.ask("scancel", run.job)
    incidents = [fact.incident for fact in run.of(f.IncidentOpened) if fact.incident.kind is not Kind.UNSEEN]
    assert [(incident.blamed_rank, incident.blamed_node) for incident in incidents] == [(1, "n2")]
    assert {name.split("-")[1] for name in run.processes(2)} == {"n1", "n3"}
    assert len(run.of(f.RungTaken)) == 1
    assert not run.of(f.CheckpointCondemned)
    assert len(run.of(f.AttemptLaunched)) == 2
    assert not attempts_overlap(run)


def test_a_frozen_controller_is_no_fact_of_the_run(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 5000)
    cluster.submit(run)
    run.until_step(1, 30)
    before, frozen_s = len(run.facts()), time.time()
    cluster.controller(signal.SIGSTOP)
    wait_for("a minute", lambda: time.time() - frozen_s > 60.0, 90)
    assert run.newest_step(1) > 300, "it trains on"
    cluster.controller(signal.SIGCONT)
    wait_for("sight again", lambda: _sees(run), 60)
    asked = (cluster.scratch / "log" / "slurmd.n2.log").read_text().count(f"launch task StepId={run.job}.")
    assert asked == 2, "the probe before the launch, and the step: while its client lives, nodes are left alone"
    kinds = {type(entry.fact) for entry in run.facts()[before:]}
    assert kinds <= {f.SourceChanged, f.CheckpointCommitted, f.CheckpointVerified, f.ActionDecided, f.ActionConfirmed}, kinds
    assert len(run.of(f.AttemptLaunched)) == 1


def test_a_rank_killed_behind_a_frozen_controller_is_one_incident(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 600)
    cluster.submit(run)
    run.until_step(1, 30)
    cluster.controller(signal.SIGSTOP)
    frozen_s = time.time()
    kill_in_node(cluster, "n2", RANK)
    wait_for("a minute", lambda: time.time() - frozen_s > 60.0, 90)
    assert len(run.of(f.AttemptLaunched)) == 1, "nothing is started while nobody knows whether attempt 1 lives"
    cluster.controller(signal.SIGCONT)
    run.until_step(2, 30, 120)
    tell("frozen for 60 s with a rank killed", until_launched_after_it=run.time_of(f.AttemptLaunched) - frozen_s - 60.0)
    incidents = [fact.incident for fact in run.of(f.IncidentOpened)]
    assert [(incident.blamed_rank, incident.blamed_node) for incident in incidents] == [(1, "n2")]
    assert len(run.of(f.RungTaken)) == 1
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)


def test_a_hang_is_ended_before_the_next_attempt_is_started(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 600)
    cluster.submit(run)
    run.until_step(1, 30)
    stopped_s = time.time()
    with Listing(cluster, run) as listing:
        kill_in_node(cluster, "n3", RANK, signal.SIGSTOP)
        run.until_step(2, 30)
    first, second = (frozenset({f"0 {run.step_name(number)}"}) for number in (1, 2))
    assert [listing.seen[0], listing.seen[-1], listing.doubles] == [first, second, []], "the old step is gone before attempt 2"
    tell("hang", until_launched=run.time_of(f.AttemptLaunched) - stopped_s)
    assert [name for _, name in cluster.steps(run)] == [run.step_name(2)], "of attempt 1 nothing is listed"
    assert [fact.incident.kind for fact in run.of(f.IncidentOpened)] == [Kind.HANG]
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)


def test_the_run_outlives_the_node_of_its_batch_script(cluster: Cluster, runs: Path) -> None:
    """Its standby, on a second node, goes on in its place; the ready script is what is submitted."""
    run = Run(runs / "run", 3000, 0.05, "--launcher-option", "spares=1", "--takeover-wait", "60s")
    run.script = ready_script(run)
    cluster.submit(run)
    run.until_step(1, 30)
    off_s = time.time()
    cluster.off("n1")
    run.until_step(2, 30, 150)
    tell("batch node off", until_launched=run.time_of(f.AttemptLaunched) - off_s)
    assert run.status is None
    assert [fact.epoch for fact in run.of(f.SupervisorTookOver)] == [1, 2]
    assert {name.split("-")[1] for name in run.processes(2)} == {"n2", "n3"}
    assert cluster.ask("squeue", "-h", "-j", run.job, "-o", "%T").strip() == "RUNNING", "the allocation is held"
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)


def test_a_standby_takes_the_run_over_when_the_batch_node_dies(cluster: Cluster, runs: Path) -> None:
    """`sentinel run --standby` as a step on a second node: it counts the lease, and asks nobody about the node."""
    cluster.configure(SlurmdTimeout=5, MessageTimeout=3)
    run = Run(runs / "run", 4000, 0.05, "--launcher-option", "spares=1", "--lease", "20s")
    waits = shlex.join(
        [sys.executable, "-m", "sentinel", "run", "--standby", "--lease", "20s", "--listen", "off", "--run-dir", str(run.run_dir)]
    )
    place = "srun --overlap --nodes=1 --ntasks=1 --nodelist=n2 --job-name=standby --kill-on-bad-exit=0"
    run.script = f"{place} --output={run.log}.standby {waits} &\n{run.command}"
    cluster.submit(run)
    run.until_step(1, 30)
    wait_for("the standby to wait", lambda: "stands by for" in Path(f"{run.log}.standby").read_text(), 60)
    off_s = time.time()
    cluster.off("n1")
    run.until_step(2, 30, 150)
    taken_s = run.time_of(f.SupervisorTookOver) - off_s
    tell("batch node off, a standby", until_taken_over=taken_s, until_launched=run.time_of(f.AttemptLaunched) - off_s)
    cluster.ask("scancel", run.job)
    assert [fact.host for fact in run.of(f.SupervisorTookOver)] == ["n1", "n2"]
    assert taken_s > 13.0, "a lease, less at most two of its renewals"
    assert {name.split("-")[1] for name in run.processes(2)} == {"n2", "n3"}
    assert not run.of(f.CheckpointCondemned)
    assert len(run.of(f.AttemptLaunched)) == 2
    assert not attempts_overlap(run)


def test_a_job_that_is_warned_is_requeued_and_goes_on(cluster: Cluster, runs: Path) -> None:
    """As before its time limit: SIGUSR1 to the batch script alone, Sentinel leaves with 75, and the script requeues its job."""
    run = Run(runs / "run", 300)
    run.script = ready_script(run)
    cluster.submit(run)
    run.until_step(1, 30)
    warned_s = time.time()
    cluster.ask("scancel", "--signal=USR1", "--batch", run.job)
    run.until_step(2, 40, 200)
    tell("requeued", until_launched=run.time_of(f.AttemptLaunched) - warned_s)
    assert [fact.epoch for fact in run.of(f.SupervisorTookOver)] == [1, 2]
    (ended,) = run.of(f.AttemptEnded)
    assert ended.outcome == "stopped"
    first = wait_for("the first step of attempt 2", lambda: [one for one in run.of(f.FirstStep) if one.attempt == 2])
    assert first[0].step == ended.last_step + 1, "no step is lost"
    assert not run.of(f.IncidentOpened)
    assert not attempts_overlap(run)


# What is there in the attempt's folder when the supervisor dies, and how long after that: from before the client to behind it.
MOMENTS = [
    ("spec.json", 0.0), ("spec.json", 0.01), ("start.lock", 0.0), ("slurm.json", 0.0), ("slurm.json", 0.01), ("began", 0.0),
    ("began", 0.02), ("began", 0.05), ("began", 0.1), ("seen.json", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("place", "after_s"), MOMENTS)
def test_a_supervisor_killed_in_mid_launch_leaves_one_step(cluster: Cluster, runs: Path, place: str, after_s: float) -> None:
    """By SIGKILL; the batch script starts it again."""
    run = Run(runs / "run", 40)
    until = f"until [ -e {run.run_dir}/attempts/0001/{place} ]; do :; done; sleep {after_s}"
    run.script = f"{run.command} & {until}; kill -KILL $!; wait $!; echo killed; {run.command}"
    cluster.submit(run)
    assert run.until_left() == 0, run.tail()
    assert len(run.processes(1)) == 3, f"one step of attempt 1, three ranks: {run.processes(1)}"
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["finished"]
    assert not run.of(f.IncidentOpened)


def _sees(run: Run) -> bool:
    changes = run.of(f.SourceChanged)
    return not changes or changes[-1].ok


def _time_in_log(cluster: Cluster, words: str) -> float | None:
    for line in reversed((cluster.scratch / "log" / "slurmctld.log").read_text().splitlines()):
        if words in line:
            return time.mktime(time.strptime(line[1:20], "%Y-%m-%dT%H:%M:%S"))
    return None
