"""Real scripts of real libraries, unchanged, under a profile alone. `make trainers-test` installs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for
from tests.trainers.kit import give_up, hurt, passed_over, supervise

FOUND = [("crash", "recovered"), ("hang", "recovered"), ("non_finite", "recovered")]
HF = ("--per_device_train_batch_size", 4, "--logging_steps", 1, "--save_steps", 20, "--use_cpu", "true", "--report_to", "none")
LIGHTNING = "lightning:root_flag=--out,resume_flag=--ckpt"
pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.timeout(1000)]


def told(run: Supervised) -> list[tuple[str, str]]:
    return [(one["kind"], one["state"]) for one in run.incidents()]


def test_a_transformers_trainer_survives_a_kill_a_hang_and_a_nan(tmp_path: Path) -> None:
    words = ("--output_dir", tmp_path / "out", *HF, "--max_steps", 480, "--learning_rate", 1e-3)
    run = supervise(tmp_path / "run", "hf-trainer", hurt("hf_script.py", *words, kill=130, hang=190, nan=290), deadline_s=900.0)
    assert told(run)[:3] == FOUND
    assert max(run.surviving()) == 480


def test_a_transformers_trainer_has_no_means_against_poison_and_that_is_said(tmp_path: Path) -> None:
    words = ("--output_dir", tmp_path / "out", *HF, "--max_steps", 2000, "--learning_rate", 1e-3)
    run = give_up(tmp_path / "run", "hf-trainer", hurt("hf_script.py", *words, poison=[230, 2000]))
    (incident,) = run.incidents()
    assert incident["state"] == "exhausted"
    assert any("cannot skip samples" in reason for reason in passed_over(incident))
    assert any("cannot be given the learning rate" in reason for reason in passed_over(incident))


def test_a_transformers_trainer_that_can_save_when_it_is_stopped_loses_no_step(tmp_path: Path) -> None:
    flags = ("--max_steps", 300_000, "--per_device_train_batch_size", 4, "--logging_steps", 1, "--save_steps", 100_000)
    more = ("--use_cpu", "true", "--report_to", "none", "--enable_jit_checkpoint", "true")
    command = hurt("hf_script.py", "--output_dir", tmp_path / "out", *flags, *more)
    run = Supervised(tmp_path / "run", command, "demo", ["--trainer", "hf-trainer"]).start()
    wait_for("thirty steps", lambda: len(run.surviving()) >= 30)
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait(240.0) == 130, run.log
    (saved,) = (int(path.name.partition("-")[2]) for path in (tmp_path / "out").glob("checkpoint-*"))
    assert saved < 100_000, "not one of its own saves"
    assert max(run.surviving()) - saved <= 1
    command[command.index("300000")] = str(saved + 50)
    again = Supervised(run.run_dir, command, "demo", ["--trainer", "hf-trainer", "--changed-command"]).start()
    assert again.wait(240.0) == 0, again.log
    assert sorted(again.surviving()) == list(range(1, saved + 51))


def test_a_lightning_script_survives_a_kill_a_hang_and_a_nan(tmp_path: Path) -> None:
    command = hurt("lightning_script.py", "--out", tmp_path / "out", "--steps", 700, kill=130, hang=230, nan=350)
    run = supervise(tmp_path / "run", LIGHTNING, command, deadline_s=900.0)
    assert told(run)[:3] == FOUND
    assert max(run.surviving()) == 700


def test_a_lightning_script_has_no_means_against_poison_and_that_is_said(tmp_path: Path) -> None:
    command = hurt("lightning_script.py", "--out", tmp_path / "out", "--steps", 20_000, poison=[230, 20_000])
    run = give_up(tmp_path / "run", LIGHTNING, command)
    (incident,) = run.incidents()
    assert incident["state"] == "exhausted"
    assert any("cannot skip samples" in reason for reason in passed_over(incident))


def test_torchtitan_survives_a_kill_and_a_nan(tmp_path: Path) -> None:
    place, out = tmp_path / "place", tmp_path / "out"
    model = ("--model.name", "llama3", "--model.flavor", "tiny", "--model.hf_assets_path", place)
    batch = ("--training.dataset", "words", "--training.local_batch_size", 1, "--training.seq_len", 32)
    more = ("--training.mixed_precision_param", "float32", "--comm.trace_buf_size", 0, "--metrics.log_freq", 1)
    saves = ("--checkpoint.enable", "--checkpoint.interval", 20, "--job.dump_folder", out)
    command = hurt("torchtitan_on_cpu.py", *model, *batch, *more, *saves, "--training.steps", 280, kill=70, nan=150)
    command[1:1] = [f"PLACE={place}", f"HF_HOME={place}", "HF_DATASETS_OFFLINE=1"]
    run = supervise(tmp_path / "run", "torchtitan", command)
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("crash", "recovered"), ("non_finite", "recovered")]
    assert sorted(run.surviving()) == list(range(1, 281))


def test_a_checkpoint_that_transformers_has_deleted_is_gone_back_to(tmp_path: Path) -> None:
    flags = ("--max_steps", 400, "--per_device_train_batch_size", 4, "--logging_steps", 1, "--save_steps", 20)
    more = ("--use_cpu", "true", "--report_to", "none", "--save_total_limit", 1)
    run = supervise(
        tmp_path / "run", "hf-trainer", hurt("hf_script.py", "--output_dir", tmp_path / "out", *flags, *more, nan=239)
    )
    first = run.incidents()[0]
    assert (first["kind"], first["state"]) == ("non_finite", "recovered")
    assert first["remedies"][-1]["rollback_to_step"] <= 220, "240 was saved with the NaN, and 220 deleted for it"
    assert [path.name for path in (tmp_path / "out").glob("checkpoint-*")] == ["checkpoint-400"]
