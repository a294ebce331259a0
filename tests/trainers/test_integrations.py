"""Sentinel's client inside real libraries: everything that strikes is repaired, and every setting asked for is read back.

`make trainers-test` installs the libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for
from tests.trainers.kit import hurt, proofs

pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.timeout(900)]
POISON = (1280, 1440)  # samples, from step 161 on
FAULTS = {"kill": 50, "nan": 260, "hang": 330, "poison": POISON}
STEPS = 420


def judge(run: Supervised, kinds: tuple[str, ...] = ("crash", "spike", "non_finite", "hang")) -> None:
    """Every step is on the surviving lineage, none with a poisoned sample, and what was asked for was read back."""
    incidents = run.incidents()
    assert [(one["kind"], one["state"]) for one in incidents] == [(kind, "recovered") for kind in kinds], run.log
    graded = [proofs(one) for one in incidents]
    assert {grade for one in graded for grade in one.values()} == {"read_back"}
    assert graded[1]["skip"] == "read_back"
    surviving = run.surviving()
    assert sorted(surviving) == list(range(1, STEPS + 1))
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


def test_a_loop_under_accelerate_is_repaired(tmp_path: Path) -> None:
    """The client itself: what `prepare` returned is attached."""
    run = Supervised(tmp_path / "run", hurt("accelerate_supervised.py", tmp_path / "out", STEPS, kill=50, poison=POISON)).start()
    assert run.wait(800) == 0, run.log
    judge(run, ("crash", "spike"))


def test_a_person_changes_and_stops_a_transformers_trainer(tmp_path: Path) -> None:
    """What is asked for live is answered from the live optimizer; a stop saves, and the next launch goes on from there."""
    flags = ("--max_steps", 4000, "--per_device_train_batch_size", 4, "--save_steps", 500)
    more = ("--use_cpu", "true", "--report_to", "none", "--disable_tqdm", "true", "--weight_decay", 0.1)
    command = hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags, *more)
    run = Supervised(tmp_path / "run", command).start()
    wait_for("step 20", lambda: run.last_step(1) >= 20, 240)
    changed = run_sentinel("set", str(run.run_dir), "lr=0.5x", "clip_norm=0.5", "weight_decay=0.2")
    assert changed.returncode == 0, changed.stderr
    wait_for("the answer", lambda: any(line.get("event") == "override_applied" for line in run.lines(1)), 240)
    (answer,) = (line for line in run.lines(1) if line.get("event") == "override_applied")
    effective = answer["effective"]
    assert (effective["lr_scale"], effective["clip_norm"], effective["weight_decay"]) == (0.5, 0.5, 0.2)
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait(240) == 130, run.log
    last = run.last_step(1)
    assert last < 4000
    assert (run.run_dir / f"checkpoints/step-{last:08d}/manifest.json").exists()
    assert (tmp_path / f"out/checkpoint-{last}/trainer_state.json").exists()
    assert run.incidents() == []


def test_two_ranks_of_a_transformers_trainer_are_repaired(tmp_path: Path) -> None:
    """DDP over gloo. Both ranks divide the samples; rank 0 writes."""
    flags = ("--max_steps", STEPS, "--per_device_train_batch_size", 4, "--save_steps", 20, "--ddp_backend", "gloo")
    more = ("--use_cpu", "true", "--report_to", "none", "--learning_rate", 1e-3, "--disable_tqdm", "true")
    words = hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags, *more, kill=50, poison=POISON)
    command = [*words[:3], "-m", "torch.distributed.run", "--nproc-per-node", "2", *words[3:]]
    run = Supervised(tmp_path / "run", command).start()
    assert run.wait(800) == 0, run.log
    judge(run, ("crash", "spike"))
    assert run.lines(1)[0]["world_size"] == 2
    files = {path.name for path in (run.run_dir / f"checkpoints/step-{STEPS:08d}").iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth", "optimizer.pt", "manifest.json"} <= files


def test_what_does_not_work_is_said_and_not_tried_again(tmp_path: Path) -> None:
    flags = ("--max_steps", 5, "--use_cpu", "true", "--report_to", "none", "--auto_find_batch_size", "true")
    run = Supervised(tmp_path / "run", hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags)).start()
    assert run.wait(240) != 0
    assert "auto_find_batch_size: give the batch size that fits" in run.log
    assert run.attempts() == [1]
