"""The loop of the README, supervised: what strikes it is repaired, and what it says of its settings is read back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.attached_trainer import write_data
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import HERE, Supervised, wait_for

OWN = HERE.parents[1] / "docs/examples/own_loop.py"
POISON = (1120, 1360)  # from step 71 on


def attached(data: Path, steps: int, **faults: int | str) -> list[str]:
    words = [sys.executable, str(HERE / "attached_trainer.py"), str(data), str(steps)]
    return [*words, *(word for name, step in faults.items() for word in (f"--{name}", str(step)))]


def trained(run: Supervised) -> list[list[int]]:
    return [pair for line in run.surviving().values() for pair in line["samples"]]


def grades(incident: dict[str, Any]) -> dict[str, str]:
    return {proof["key"]: proof["grade"] for remedy in incident["remedies"] for proof in remedy["proofs"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_data(tmp_path / "data.pt", POISON)
    return tmp_path / "data.pt"


def test_poisoned_samples_are_left_out_and_that_is_read_back(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The representative of the next one: a relaunch, a rollback, and a skip."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = Supervised(tmp_path / "run", attached(data, 140)).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("spike", "recovered")
    assert 69 <= incident["onset_step"] <= 73
    assert grades(incident)["skip"] == "read_back"
    assert not any(start < POISON[1] and end > POISON[0] for start, end in trained(run))
    assert sorted(run.surviving()) == list(range(1, 141))
    assert run.lines(2)[0]["capabilities"] == ["skip", "live_overrides"]


@pytest.mark.slow
def test_a_first_launch_goes_on_from_checkpoints_of_before_the_run(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it was an override_mismatch: nobody had named them."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = OWN.read_text().replace("save_every=20, ", "save_every=20, resume='newest_existing', out_dir=sys.argv[3], ")
    (tmp_path / "loop.py").write_text(text)
    words = [sys.executable, str(tmp_path / "loop.py"), str(data)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    subprocess.run([*words, "40", str(tmp_path / "run")], check=True, env=environment, timeout=60)
    run = Supervised(tmp_path / "run", [*words, "100", "unused"]).start()
    assert run.wait() == 0, run.log
    assert run.incidents() == []
    assert sorted(run.surviving()) == list(range(41, 101))


@pytest.mark.slow
def test_a_person_stops_it_and_it_goes_on_where_it_stopped(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process ends with 0, as any script that leaves its loop; its record says 6, and that counts."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_data(data)
    run = Supervised(tmp_path / "run", attached(data, 3000)).start()
    wait_for("step 50", lambda: run.last_step(1) >= 50)
    changed = run_sentinel("set", str(run.run_dir), "lr=0.5x", "clip_norm=0.5")
    assert changed.returncode == 0, changed.stderr
    wait_for("the answer", lambda: any(line.get("event") == "override_applied" for line in run.lines(1)))
    (answer,) = (line for line in run.lines(1) if line.get("event") == "override_applied")
    assert (answer["effective"]["lr_scale"], answer["effective"]["clip_norm"]) == (0.5, 0.5)
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait() == 130, run.log
    last = run.last_step(1)
    assert last < 3000
    assert (run.run_dir / f"checkpoints/step-{last:08d}/manifest.json").exists()
    assert run.incidents() == []
    again = Supervised(run.run_dir, attached(data, last + 20), options=["--changed-command"]).start()
    assert again.wait() == 0, again.log
    assert again.lines(2)[0]["resume_step"] == last
    assert again.lines(2)[0]["effective"]["lr_scale"] == 0.5, "a person's setting outlives the stop, and is read back"


@pytest.mark.slow
def test_killed_hung_poisoned_and_damaged_it_still_trains_every_step(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = Supervised(tmp_path / "run", attached(data, 500, kill=30, nan="260@3", hang="400@4")).start()
    assert run.wait(240) == 0, run.log
    incidents = run.incidents()
    assert [(one["kind"], one["state"]) for one in incidents] == [
        ("crash", "recovered"), ("spike", "recovered"), ("non_finite", "recovered"), ("hang", "recovered"),
    ]  # fmt: skip
    graded = [grade for one in incidents for grade in grades(one).values()]
    assert graded
    assert set(graded) == {"read_back"}
    assert not any(start < POISON[1] and end > POISON[0] for start, end in trained(run))
    assert sorted(run.surviving()) == list(range(1, 501))
    assert run.status()["state"] == "finished"
    assert not run.living()
