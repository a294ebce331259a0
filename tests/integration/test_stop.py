"""Stops: asked of sentinel (also where its supervisor was killed, and `sentinel stop` takes the run over itself), and not."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sentinel.clock import SystemClock
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for


def test_a_run_without_a_supervisor_is_taken_over_and_stopped_after_a_checkpoint(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(5000, 0.01)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    run.kill()
    assert run.status()["supervisor"] == "gone"
    assert run.status()["state"] == "training"
    assert run.status()["detectors"]["verdicts"], "what the killed supervisor said last"
    assert run.living()
    done = run_sentinel("stop", str(run.run_dir), deadline_s=90)
    assert done.returncode == 0, done.stderr
    last = run.last_step(1)
    assert f"run: stopped at step {last}, newest checkpoint of step {last}" in done.stdout
    assert (run.run_dir / "checkpoints" / f"step-{last:08d}" / "manifest.json").exists()
    assert not run.living()
    assert (run.run_dir / "report.md").exists()
    told = run.status()["detectors"]
    assert (told["attempt"], told["step"], told["missing"]) == (1, last, "")
    assert {said["verdict"] for said in told["verdicts"]} == {"unknown"}, "nobody judges an attempt that is over"
    again = run_sentinel("stop", str(run.run_dir))
    assert (again.returncode, again.stdout.startswith("already over")) == (0, True)


@pytest.mark.parametrize("who", [pytest.param("heartbeats/rank-00000.json", marks=pytest.mark.slow), "keeper.json"])
def test_sigterm_to_ranks_or_keeper_is_an_incident_and_the_run_goes_on_from_what_was_saved(tmp_path: Path, who: str) -> None:
    run = Supervised(tmp_path / "run", double(300, 0.01)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    os.kill(json.loads((run.run_dir / "attempts" / "0001" / who).read_text())["pid"], signal.SIGTERM)
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("preempted", "recovered")
    assert incident["remedies"][0]["rollback_to_step"] == run.last_step(1)
    assert incident["steps_lost"] == 0
    assert sorted(run.surviving()) == list(range(1, 301))
    assert not run.living()


@pytest.mark.parametrize("who", ["heartbeats/rank-00000.json", pytest.param("keeper.json", marks=pytest.mark.slow)])
def test_a_trainer_that_saves_and_leaves_with_zero_on_sigterm_goes_on(tmp_path: Path, who: str) -> None:
    """It counted as finished: the run was over at a tenth of its steps, exit 0, and nobody was told."""
    run = Supervised(tmp_path / "run", double(300, 0.01, polite=True)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    os.kill(json.loads((run.run_dir / "attempts" / "0001" / who).read_text())["pid"], signal.SIGTERM)
    assert run.wait() == 0, run.log
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("preempted", "recovered")]
    assert run.incidents()[0]["remedies"][0]["rollback_to_step"] == run.last_step(1), "from what it saved"
    assert sorted(run.surviving()) == list(range(1, 301))


def is_saving(run: Supervised, step: int) -> bool:
    return any((run.run_dir / "checkpoints").glob(f".step-{step:08d}.*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("to", ["rank", "sentinel"])
def test_a_signal_inside_a_save_waits_for_it(tmp_path: Path, to: str) -> None:
    run = Supervised(tmp_path / "run", double(150, 0.01, saving=2.0)).start()
    wait_for("the save of step 50", lambda: is_saving(run, 50))
    beat = json.loads((run.run_dir / "attempts" / "0001" / "heartbeats" / "rank-00000.json").read_text())
    assert run.child is not None
    if to == "rank":
        os.kill(beat["pid"], signal.SIGTERM)
        incidents = [("preempted", "recovered")]
    else:
        run.child.send_signal(signal.SIGUSR1)
        assert run.wait() == 75, run.log
        run.start()
        incidents = []
    assert run.wait() == 0, run.log
    assert [(one["kind"], one["state"]) for one in run.incidents()] == incidents
    assert not list((run.run_dir / "checkpoints").glob(".step-*"))
    assert sorted(run.surviving()) == list(range(1, 151))


@pytest.mark.slow
def test_a_stop_while_an_incident_is_repaired_goes_on_with_the_repair(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(400, 0.01, bad="2000-2160")).start()
    wait_for("a journal", lambda: run.facts())
    wait_for("the rollback", lambda: "attempt 2 launched" in run.log)
    assert run.child is not None
    run.child.send_signal(signal.SIGUSR1)
    assert run.wait() == 75, run.log
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("spike", "probation")]
    assert run.start().wait() == 0, run.log
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("spike", "recovered")]
    assert sorted(run.surviving()) == list(range(1, 401))


def test_sigusr1_leaves_in_time_with_75_and_the_next_start_is_the_same_run(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(400, 0.01, kill=30)).start()
    wait_for("step 60 of the second attempt", lambda: run.last_step(2) >= 60)
    assert run.child is not None
    run.child.send_signal(signal.SIGUSR2)
    wait_for("it is on record", lambda: [e for e in run.facts() if getattr(e.fact, "about", "") == "signal"])
    run.child.send_signal(signal.SIGUSR1)
    assert run.wait() == 75, run.log
    assert run.status()["state"] == "suspended"
    last = run.last_step(2)
    assert (run.run_dir / "checkpoints" / f"step-{last:08d}" / "manifest.json").exists()
    assert not run.living()
    assert run.start().wait() == 0, run.log
    assert run.attempts() == [1, 2, 3]
    assert sorted(run.surviving()) == list(range(1, 401))
    assert [(i["kind"], i["state"]) for i in run.incidents()] == [("crash", "recovered")]


MARGIN = """
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: short}
extends: demo
spec: {run: {deadline_margin: 3s}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["--time-limit", "SLURM_JOB_END_TIME"])
def test_a_deadline_stops_the_run_in_time_and_it_goes_on(tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "short.yaml"
    policy.write_text(MARGIN)
    run = Supervised(tmp_path / "run", double(5000, 0.01), policy=str(policy))
    if by == "--time-limit":
        run.options = ["--time-limit", "5s"]
    else:
        monkeypatch.setenv(by, str(int(SystemClock().wall_s()) + 6))
    assert run.start().wait() == 75, run.log
    assert by in run.status()["reason"]
    last = run.last_step(1)
    assert (run.run_dir / "checkpoints" / f"step-{last:08d}" / "manifest.json").exists()
    monkeypatch.delenv(by, raising=False)
    run.options = ["--time-limit", "100h"]
    run.start()
    wait_for("steps beyond", lambda: run.last_step(2) > last)
    assert run.status()["deadline"]["by"] == "--time-limit 100h"
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert min(run.lines(2)[1]["step"], last + 1) == last + 1


def test_a_start_without_time_to_train_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(100), options=["--time-limit", "5m"]).start()
    assert run.wait() == 2
    assert "--time-limit 5m: leaves no time to train" in run.log
    assert not run.run_dir.exists()
