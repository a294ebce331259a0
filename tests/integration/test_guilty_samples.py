"""Poison in three bursts: the real trainer looks at the samples of the window, and only the poisoned ones are left out.

Its representative in `make test` is tests/sim/test_guilty_samples.py, which drives the same loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.telemetry.samples import read_samples
from tests.integration.forked_ranks import supervised_ranks
from tests.integration.supervised import Supervised

ROOT = Path(__file__).resolve().parents[2]
STEPS = 110
BURSTS = ((1120, 1200), (1232, 1300), (1340, 1400))


def write_policy(place: Path) -> Path:
    """The demo policy, whose first skip asks for the guilty alone."""
    text = (ROOT / "policies" / "demo.yaml").read_text(encoding="utf-8")
    plain = "skip: {from: onset - 4 steps, to: detected + 40 steps}"
    assert text.count(plain) == 1
    path = place / "policy.yaml"
    guilty = "skip: {from: onset - 4 steps, to: detected + 20 steps, only: guilty, within: 2m}"
    path.write_text(text.replace(plain, guilty), encoding="utf-8")
    return path


def show(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.drill
def test_only_the_poisoned_samples_are_skipped_and_a_person_can_look_at_them(tmp_path: Path) -> None:
    sizes = f"schedule.steps={STEPS}", "data.seq_len=32", "checkpoint.every=20", "evaluation.batches=1"
    options = ["--preset", "micro", "--set", *sizes]
    faults = [word for start, end in BURSTS for word in ("--fault", f"bad_data@sample={start}-{end}")]
    run = Supervised(tmp_path / "run", supervised_ranks(2, *options, *faults), policy=str(write_policy(tmp_path))).start()
    assert run.wait(200) == 0, run.log
    (incident,) = run.incidents()
    assert incident["state"] == "recovered"
    found = incident["attribution"]
    assert found["verdict"] == "guilty", found
    poisoned = {index for start, end in BURSTS for index in range(start, end)}
    guilty = {index for start, end in found["ranges"] for index in range(start, end)}
    assert poisoned <= guilty, "every poisoned sample is found"
    assert len(guilty - poisoned) <= 4, "and hardly another"
    assert incident["remedies"][-1]["skip"] == found["ranges"]
    trained = {index for line in run.surviving().values() for a, b in line["samples"] for index in range(a, b)}
    assert not trained & guilty
    innocent = set(range(found["suspect"][0], max(trained))) - guilty
    assert innocent <= trained, "nothing else of the window is lost"
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    assert not (run.run_dir / "attempts" / f"{found['attempt']:04d}" / "metrics.jsonl").exists(), "it trained nothing"
    assert {seen.index for seen in read_samples(run.run_dir, found["attempt"])} >= poisoned

    listed = show("sentinel", "incidents", "show", "1", str(run.run_dir), "--samples")
    assert " guilty" in listed
    assert ".py" in listed
    text = show("trainer.show", str(run.run_dir), "--sample", str(BURSTS[0][0]))
    assert f"sample {BURSTS[0][0]}" in text
    assert "poisoned" in text
    assert text.replace("\n", "").isprintable()
    assert "poisoned" not in show("trainer.show", str(run.run_dir), "--sample", str(BURSTS[0][1] + 3))
