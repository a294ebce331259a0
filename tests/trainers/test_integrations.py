"""Sentinel's client inside real libraries: everything that strikes is repaired, and every setting asked for is read back.

`make trainers-test` installs the libraries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for
from tests.trainers.kit import hurt, proofs

pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.timeout(900)]
POISON = (1280, 1440)  # samples, from step 161 on
# Attempt 1 dies of the kill, attempt 2 of the poison: what comes behind that strikes when it is repaired.
FAULTS = {"kill": 50, "poison": POISON, "nan": 260, "hang": 330, "from_attempt": {"nan": 3, "hang": 4}}
STEPS = 420


# Real libraries save every fraction of a second here: at that rate any disk is full within the hours that the policy looks ahead.
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: roomy}
extends: demo
spec:
  detectors:
    disk_full: {hours_ahead: 1m}
"""


def under_roomy(place: Path, command: list[str]) -> Supervised:
    policy = place / "roomy.yaml"
    policy.write_text(POLICY)
    return Supervised(place / "run", command, policy=str(policy))


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
    run = under_roomy(tmp_path, command).start()
    assert run.wait(800) == 0, run.log
    judge(run)
    assert run.lines(1)[0]["capabilities"] == ["skip", "live_overrides"]


def test_a_lightning_run_is_repaired(tmp_path: Path) -> None:
    command = hurt("lightning_supervised.py", "--out", tmp_path / "out", "--steps", STEPS, **FAULTS)
    run = under_roomy(tmp_path, command).start()
    assert run.wait(800) == 0, run.log
    judge(run)
    assert run.lines(1)[0]["capabilities"] == ["skip", "live_overrides"]


def test_a_loop_under_accelerate_is_repaired(tmp_path: Path) -> None:
    """The client itself: what `prepare` returned is attached."""
    run = under_roomy(tmp_path, hurt("accelerate_supervised.py", tmp_path / "out", STEPS, kill=50, poison=POISON)).start()
    assert run.wait(800) == 0, run.log
    judge(run, ("crash", "spike"))


def test_a_person_changes_and_stops_a_transformers_trainer(tmp_path: Path) -> None:
    """What is asked for live is answered from the live optimizer; a stop saves, and the next launch goes on from there."""
    flags = ("--max_steps", 4000, "--per_device_train_batch_size", 4, "--save_steps", 500)
    more = ("--use_cpu", "true", "--report_to", "none", "--disable_tqdm", "true", "--weight_decay", 0.1)
    command = hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags, *more)
    run = under_roomy(tmp_path, command).start()
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
    run = under_roomy(tmp_path, command).start()
    assert run.wait(800) == 0, run.log
    judge(run, ("crash", "spike"))
    assert run.lines(1)[0]["world_size"] == 2
    files = {path.name for path in (run.run_dir / f"checkpoints/step-{STEPS:08d}").iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth", "optimizer.pt", "manifest.json"} <= files


def titan(place: Path, *more: object, ranks: int = 1, own: bool = True, **faults: object) -> list[str]:
    """An unchanged torchtitan's command, whose configuration names the integration. A step is 8 samples."""
    model = ("--model.name", "llama3", "--model.flavor", "tiny", "--model.hf_assets_path", place / "place")
    batch = ("--training.dataset", "words", "--training.local_batch_size", 4 // ranks, "--training.global_batch_size", 8)
    sizes = ("--training.seq_len", 32, "--training.mixed_precision_param", "float32", "--comm.trace_buf_size", 0)
    rate = ("--optimizer.lr", 5e-3, "--lr_scheduler.warmup_steps", 20, "--metrics.log_freq", 1)
    saves = ("--checkpoint.interval", 20, "--checkpoint.enable", "--job.dump_folder", place / "out")
    ours = ("--experimental.custom_import", "sentinel.integrations.torchtitan") if own else ()
    words = hurt("torchtitan_on_cpu.py", *model, *batch, *sizes, *rate, *saves, *ours, *more, **faults)
    words[1:1] = [f"PLACE={place / 'place'}", f"HF_HOME={place / 'place'}", "HF_DATASETS_OFFLINE=1"]
    python = words.index(sys.executable) + 1
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    return [*words[:python], *launcher, *words[python:]]


def poisoned(run: Supervised, place: Path) -> list[tuple[int, int]]:
    """Attempt and step of every micro-batch whose own tokens show the poison, as far as the step is on the surviving lineage: the
    newest attempt's, in a run that came to its end."""
    lines = [line.split() for line in (place / "place/poisoned.txt").read_text().splitlines()]
    struck = [(int(attempt), int(step)) for attempt, step in lines]
    assert struck, "the poison was never trained on"
    newest = {line["step"]: attempt for attempt in run.attempts() for line in run.lines(attempt) if line["kind"] == "step"}
    return [(attempt, step) for attempt, step in struck if newest[step] == attempt]


def test_torchtitan_is_repaired(tmp_path: Path) -> None:
    valid = ("--validation.enable", "--validation.dataset", "words", "--validation.freq", 70, "--validation.steps", 2)
    few = ("--validation.local_batch_size", 4, "--validation.seq_len", 32)
    run = under_roomy(tmp_path, titan(tmp_path, "--training.steps", STEPS, *valid, *few, **FAULTS)).start()
    assert run.wait(800) == 0, run.log
    judge(run)
    assert poisoned(run, tmp_path) == []
    assert run.lines(1)[0]["capabilities"] == ["skip", "live_overrides"]
    again = {line["step"]: line["loss"] for line in run.lines(2) if line["kind"] == "step"}
    assert all(again[line["step"]] == line["loss"] for line in run.lines(1) if line["kind"] == "step" and line["step"] > 40)
    assert [path.name for path in (tmp_path / "out/checkpoint").iterdir()] == [f"step-{STEPS}"], "what torchtitan exports at last"


def test_two_ranks_of_torchtitan_are_repaired(tmp_path: Path) -> None:
    """FSDP2 over gloo, each rank with its own stream: what is left out is left out of both. Its loss is that of both."""
    command = titan(tmp_path, "--training.steps", STEPS, ranks=2, kill=50, poison=[place // 2 for place in POISON])
    run = under_roomy(tmp_path, command).start()
    assert run.wait(800) == 0, run.log
    judge(run, ("crash", "spike"))
    assert poisoned(run, tmp_path) == []
    assert run.lines(1)[0]["world_size"] == 2
    files = {path.name for path in (run.run_dir / f"checkpoints/step-{STEPS:08d}").iterdir()}
    assert {".metadata", "__0_0.distcp", "__1_0.distcp", "manifest.json"} <= files
    logged = re.findall(r"step: +(\d+) .*?loss: +([\d.]+)", (run.run_dir / "attempts/0001/logs/launcher.out").read_text())
    written = {line["step"]: line["loss"] for line in run.lines(1) if line["kind"] == "step"}
    assert len(logged) >= 40
    assert all(abs(written[int(step)] - float(loss)) < 1e-4 for step, loss in logged if int(step) in written)


def test_a_person_changes_and_stops_torchtitan(tmp_path: Path) -> None:
    """With workers that load ahead. The next launch goes on where the stop saved."""
    command = titan(tmp_path, "--training.steps", 9999, "--checkpoint.interval", 5000, "--training.dataloader.num_workers", 1)
    run = under_roomy(tmp_path, command).start()
    wait_for("step 20", lambda: run.last_step(1) >= 20, 240)
    changed = run_sentinel("set", str(run.run_dir), "lr=0.5x", "clip_norm=0.5", "weight_decay=0.2", "betas=0.8,0.9")
    assert changed.returncode == 0, changed.stderr
    wait_for("the answer", lambda: any(line.get("event") == "override_applied" for line in run.lines(1)), 240)
    (answer,) = (line for line in run.lines(1) if line.get("event") == "override_applied")
    wanted = {"lr_scale": 0.5, "clip_norm": 0.5, "weight_decay": 0.2, "betas": [0.8, 0.9]}
    assert wanted.items() <= answer["effective"].items()
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait(240) == 130, run.log
    last = run.last_step(1)
    assert last < 9999
    assert (run.run_dir / f"checkpoints/step-{last:08d}/manifest.json").exists()
    command[command.index("9999")] = str(last + 20)
    again = Supervised(run.run_dir, command, options=["--changed-command"]).start()
    assert again.wait(240) == 0, again.log
    assert sorted(again.surviving()) == list(range(1, last + 21))
    assert {one["kind"] for one in again.incidents()} <= {"environment_changed"}, "the command is another"


def test_what_torchtitan_cannot_do_under_sentinel_is_said_and_not_tried_again(tmp_path: Path) -> None:
    earlier = tmp_path / "out/checkpoint/step-7"
    earlier.mkdir(parents=True)
    (earlier / ".metadata").touch()
    run = under_roomy(tmp_path, titan(tmp_path, "--checkpoint.load_step", 7, "--training.steps", 9)).start()
    assert run.wait(240) != 0
    assert "checkpoint.load_step 7: Sentinel names the checkpoint; leave it out" in run.log
    assert "has checkpoints up to step 7, from before this run" in run.log
    assert run.attempts() == [1]
    assert not (run.run_dir / "checkpoints").exists()


def test_torchtitan_without_a_supervisor_is_as_it_was(tmp_path: Path) -> None:
    def losses(own: bool) -> list[str]:
        place = tmp_path / str(own)
        command = titan(place, "--training.steps", 6, "--checkpoint.interval", 3, "--debug.seed", 1, own=own)
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        assert sorted(path.name for path in (place / "out/checkpoint").iterdir()) == ["step-3", "step-6"]
        return re.findall(r"step: +\d+ .*?loss: +[\d.]+", done.stdout + done.stderr)

    found = losses(own=True)
    assert len(found) == 6
    assert found == losses(own=False)


def test_what_does_not_work_is_said_and_not_tried_again(tmp_path: Path) -> None:
    flags = ("--max_steps", 5, "--use_cpu", "true", "--report_to", "none", "--auto_find_batch_size", "true")
    run = under_roomy(tmp_path, hurt("hf_supervised.py", "--output_dir", tmp_path / "out", *flags)).start()
    assert run.wait(240) != 0
    assert "auto_find_batch_size: give the batch size that fits" in run.log
    assert run.attempts() == [1]
