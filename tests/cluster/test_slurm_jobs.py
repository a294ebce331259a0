"""One run over several starts of its job, and several jobs, on a real Slurm: one lineage, and no step lost that was saved."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from sentinel.model import facts as f
from tests.cluster.cluster_kit import Cluster, Run, attempts_overlap, kill_in_node, ready_script, tell, wait_for
from tests.cluster.ranked_loop import SAVE_EVERY

RANK = r"^[^ ]*python[^ ]* [^ ]*ranked_loop\.py"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def lost_steps(run: Run) -> list[int]:
    """How many steps were done twice, at each beginning but the first."""
    ended, begun = run.of(f.AttemptEnded), run.of(f.FirstStep)
    return [old.last_step + 1 - new.step for old, new in zip(ended, begun[1:], strict=False)]


def until_first_step(run: Run, attempt: int, deadline_s: float = 120.0) -> None:
    """By its fact: a heartbeat comes before."""

    def is_there() -> bool:
        return any(fact.attempt == attempt for fact in run.of(f.FirstStep))

    wait_for(f"first step of attempt {attempt}; {run.tail()}", is_there, deadline_s)


def is_one_lineage(run: Run, legs: int) -> bool:
    return [fact.epoch for fact in run.of(f.SupervisorTookOver)] == list(range(1, legs + 1)) and not attempts_overlap(run)


def test_three_time_limits_in_a_row(cluster: Cluster, runs: Path) -> None:
    """One minute each. Slurm warns up to half a minute early, the ready script puts its job back, and nothing is lost."""
    run = Run(runs / "run", 100_000)
    run.script = ready_script(run)
    cluster.submit(run, 3, "--time=1", "--signal=B:USR1@15")
    began_s = time.time()
    for leg in (1, 2, 3, 4):
        until_first_step(run, leg)
    tell("three time limits", in_all=time.time() - began_s)
    assert is_one_lineage(run, 4)
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["stopped"] * 3
    assert lost_steps(run) == [0, 0, 0]
    assert not run.of(f.IncidentOpened)


def test_a_job_that_is_requeued_goes_on_on_other_nodes(cluster: Cluster, runs: Path) -> None:
    """Nobody was warned: the node of the batch script is drained, and the job put back by hand."""
    run = Run(runs / "run", 100_000)
    run.script = ready_script(run)
    cluster.submit(run, 2)
    run.until_step(1, 3 * SAVE_EVERY)
    cluster.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    try:
        requeued_s = time.time()
        cluster.ask("scontrol", "requeue", run.job)
        until_first_step(run, 2)
        tell("requeued elsewhere", until_launched=run.time_of(f.AttemptLaunched) - requeued_s)
    finally:
        cluster.ask("scontrol", "update", "nodename=n1", "state=resume")
    assert {name.split("-")[1] for name in run.processes(2)} == {"n2", "n3"}
    assert is_one_lineage(run, 2)
    assert lost_steps(run)[0] <= SAVE_EVERY
    assert not run.of(f.CheckpointCondemned)


def test_a_job_that_is_preempted_goes_on_afterwards(cluster: Cluster, runs: Path) -> None:
    """A job of a partition that goes before takes the nodes, after ten seconds of grace."""
    run = Run(runs / "run", 100_000)
    run.script = ready_script(run)
    cluster.submit(run)
    run.until_step(1, 3 * SAVE_EVERY)
    urgent = cluster.ask(
        "sbatch", "--parsable", "--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 3"
    ).strip()
    wait_for("end of the urgent job", lambda: cluster.job_state(urgent) == "COMPLETED", 120)
    assert f"preempted JobId={run.job} " in cluster.log("slurmctld")
    before = run.of(f.AttemptLaunched)[-1].attempt
    until_first_step(run, before + 1)
    assert is_one_lineage(run, 2)
    assert max(lost_steps(run)) <= SAVE_EVERY
    assert not run.of(f.CheckpointCondemned)


def test_another_job_goes_on_where_the_one_before_was_cancelled(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 100_000)
    run.script = ready_script(run)
    cluster.submit(run)
    run.until_step(1, 3 * SAVE_EVERY)
    before = run.job
    cluster.ask("scancel", before)
    cluster.submit(run)
    until_first_step(run, 2)
    assert run.job != before
    assert is_one_lineage(run, 2)
    assert lost_steps(run)[0] <= SAVE_EVERY
    assert not run.of(f.CheckpointCondemned)


def test_the_last_task_of_an_array_has_its_own_steps(cluster: Cluster, runs: Path) -> None:
    """It has the number of the array, by which squeue lists its sister, too."""
    run = Run(runs / "run", 200)
    name = run.step_name(1)
    sister = f"[ $SLURM_ARRAY_TASK_ID = 2 ] || {{ srun --overlap --job-name {name} sleep 600; exit; }}"
    is_there = f"squeue --noheader --steps --jobs $SLURM_JOB_ID --format %j | grep -q {name}"
    run.script = f"{sister}\nuntil {is_there}; do sleep 0.1; done\n{run.script}"
    cluster.submit(run, 1, "--array=1-2", "--cpus-per-task=1")
    run.until_step(1, 30)
    kill_in_node(cluster, _node_of(run), RANK)
    assert run.until_left() == 0, run.tail()
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["crashed", "finished"]
    assert len(run.of(f.AttemptLaunched)) == 2
    assert cluster.steps(run), "the sister's step of that name lives on"


def test_a_stop_while_the_controller_is_away_is_carried_out_when_it_answers(cluster: Cluster, runs: Path) -> None:
    run = Run(runs / "run", 100_000)
    cluster.submit(run)
    run.until_step(1, 30)
    cluster.controller(signal.SIGSTOP)
    kill_in_node(cluster, "n1", "sentinel run", signal.SIGINT)
    stopped_s = time.time()
    wait_for("half a minute", lambda: time.time() - stopped_s > 30.0, 60)
    assert run.status is None, "nobody knows whether it has ended"
    cluster.controller(signal.SIGCONT)
    back_s = time.time()
    assert run.until_left(90) == 130, run.tail()
    tell("stopped behind a frozen controller", until_left_after_it=time.time() - back_s)
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["stopped"]
    assert not run.of(f.IncidentOpened)
    assert cluster.steps(run) == []


def test_what_the_job_was_submitted_with_hides_no_node(cluster: Cluster, runs: Path) -> None:
    """Nor does the name of the run directory."""
    run = Run(runs / "odd, [1-3] 100% näme", 40)
    habits = {"SLURM_LABELIO": "1", "SLURM_EXPORT_ENV": "NONE", "SLURM_STDOUTMODE": "none", "SLURM_NTASKS_PER_GPU": "1"}
    run.script = "".join(f"export {name}={value}\n" for name, value in habits.items()) + run.script
    cluster.submit(run)
    assert run.until_left() == 0, run.tail()
    assert len(run.processes(1)) == 3
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["finished"]


def _node_of(run: Run) -> str:
    return run.processes(1)[0].split("-")[1]
