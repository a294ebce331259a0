"""Sentinel's client inside real libraries: everything that strikes is repaired, and every setting asked for is read back.

`make trainers-test` installs the libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.supervised import Supervised
from tests.trainers.kit import hurt, proofs

pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.timeout(900)]
POISON = (1280, 1440)  # samples, from step 161 on
FAULTS = {"kill": 50, "nan": 260, "hang": 330, "poison": POISON}
STEPS = 420


def judge(run: Supervised, steps: int = STEPS) -> None:
    """Every step is on the surviving lineage, none with a poisoned sample, and what was asked for was read back."""
    incidents = run.incidents()
    assert [(one["kind"], one["state"]) for one in incidents] == [
        ("crash", "recovered"), ("spike", "recovered"), ("non_finite", "recovered"), ("hang", "recovered"),
    ], run.log  # fmt: skip
    graded = [proofs(one) for one in incidents]
    assert {grade for one in graded for grade in one.values()} == {"read_back"}
    assert graded[1]["skip"] == "read_back"
    surviving = run.surviving()
    assert sorted(surviving) == list(range(1, steps + 1))
    spans = [span for line in surviving.values() for span in line["samples"]]
    assert not any(start < POISON[1] and end > POISON[0] for start, end in spans)
    assert run.status()["state"] == "finished"
    assert not run.living()


def test_a_transformers_trainer_is_repaired(tmp_path: Path) -> None:
    flags = ("--max_steps", STEPS, "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2, "--save_steps", 20)
    more = ("--use_cpu", "true", "--report_to", "none", "--learning_rate", 1e-3, "--disable_tqdm", "true")
    command = hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags, *more, **FAULTS)
    run = Supervised(tmp_path / "run", command).start()
    assert run.wait(800) == 0, run.log
    judge(run)
    assert run.lines(1)[0]["capabilities"] == ["skip", "live_overrides"]


def test_a_lightning_run_is_repaired(tmp_path: Path) -> None:
    command = hurt("lightning_supervised.py", "--out", tmp_path / "out", "--steps", STEPS, **FAULTS)
    run = Supervised(tmp_path / "run", command).start()
    assert run.wait(800) == 0, run.log
    judge(run)
    assert run.lines(1)[0]["capabilities"] == ["skip", "live_overrides"]
