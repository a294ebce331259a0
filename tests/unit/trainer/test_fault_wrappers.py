"""Faults are put around a run from outside: what each wrapper does, and that the loop's own modules do not know of them."""

import json
from pathlib import Path

import pytest

from tests.unit.trainer.in_process import train_here
from trainer.checkpoint import verify
from trainer.exits import ConfigError, DataError
from trainer.fault_injection.wrappers import FaultyLoader, FaultyOptimizer, FaultySaver, UnstableSchedule
from trainer.optim import ShardedAdamW

ROOT = Path(__file__).resolve().parents[3]
SIZES = ("--preset", "micro", "--set", "schedule.steps=8", "data.batch_size=2", "data.seq_len=16", "checkpoint.every=4")
LOOP = ("__main__", "run", "start", "step", "resuming", "saves", "inspection", "control", "schedule", "telemetry")
WORDS = ("fault", "damage", "poison", "struck", "strike")


def test_a_run_without_faults_is_not_wrapped(world, monkeypatch, tmp_path):
    run, _ = train_here(world, monkeypatch, tmp_path, *SIZES)
    assert type(run.optimizer) is ShardedAdamW
    wrapped = (FaultyLoader, FaultySaver, UnstableSchedule)
    assert not any(isinstance(part, wrapped) for part in (run.loader, run.saver, run.schedule))


def test_wrapped_parts_come_to_the_same_numbers_until_a_fault_strikes(world, monkeypatch, tmp_path):
    _, clean = train_here(world, monkeypatch, tmp_path / "clean", *SIZES)
    run, hurt = train_here(world, monkeypatch, tmp_path / "hurt", *SIZES, "--fault", "nan_grad@step=6:length=2")
    assert isinstance(run.optimizer, FaultyOptimizer)
    numbers = ("loss", "grad_norm", "param_norm", "samples", "lr")
    assert [[line[name] for name in numbers] for line in hurt[:5]] == [[line[name] for name in numbers] for line in clean[:5]]
    assert [line["skipped"] for line in hurt] == [0] * 5 + [1, 1, 0]
    assert len(list((tmp_path / "hurt" / "faults").iterdir())) == 1


def test_lasting_damage_is_in_the_manifest_and_a_rotten_checkpoint_was_committed_first(world, monkeypatch, tmp_path):
    words = (*SIZES, "--fault", "drift@step=3:size=0.01", "--fault", "bit_rot@step=4")
    train_here(world, monkeypatch, tmp_path, *words)
    checkpoints = tmp_path / "checkpoints"
    manifest = json.loads((checkpoints / "step-00000008" / "manifest.json").read_text())
    assert manifest["damage"] == {"drift@step=3:size=0.01": 3}
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in events if line.get("event") == "checkpoint_committed"] == [4, 8]
    verify(checkpoints / "step-00000008")
    with pytest.raises(DataError, match="does not match its digest"):
        verify(checkpoints / "step-00000004")


def test_a_fault_of_step_0_strikes_before_anything_is_written(world, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="leaves at step 0"):
        train_here(world, monkeypatch, tmp_path, *SIZES, "--fault", "exit@step=0:code=3")
    assert [path.name for path in tmp_path.iterdir()] == ["faults"]


@pytest.mark.parametrize("module", LOOP)
def test_the_loop_reads_without_its_drills(module):
    text = (ROOT / "trainer" / f"{module}.py").read_text().lower()
    assert not [word for word in WORDS if word in text.replace("default", "")]


def test_the_wrappers_are_put_on_in_one_place():
    lines = (ROOT / "trainer" / "train.py").read_text().splitlines()
    assert [line.strip() for line in lines if "fault" in line.lower().replace("default", "")] == [
        "from .fault_injection.wrappers import install_faults",
        "install_faults(run, launch.faults)",
    ]
