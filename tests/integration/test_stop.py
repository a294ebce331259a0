"""Stops: asked of sentinel (also where its supervisor was killed, and `sentinel stop` takes the run over itself), and not."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

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


def test_sigterm_to_the_ranks_alone_is_an_incident_and_the_run_goes_on_from_what_they_saved(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(300, 0.01)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    beat = json.loads((run.run_dir / "attempts" / "0001" / "heartbeats" / "rank-00000.json").read_text())
    os.kill(beat["pid"], signal.SIGTERM)
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["steps_lost"]) == ("preempted", "recovered", 0)
    assert incident["remedies"][0]["rollback_to_step"] == run.last_step(1)
    assert sorted(run.surviving()) == list(range(1, 301))
    assert not run.living()
