"""spec.json as the trainer's client reads it."""

from __future__ import annotations

import json
from pathlib import Path

from sentinel.client.settings import SETTINGS
from sentinel.client.spec import read_spec
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import AttemptSpec, ResumePoint, SampleRange, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles


def test_the_client_reads_what_the_launcher_writes(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 12)
    overrides = SettingsInForce(
        id="ov-7", incident=4, lr_scale=0.5, betas=(0.9, 0.95), skip=(SampleRange(512, 1024),), until=(("lr_scale", 3200),)
    )
    resume = ResumePoint(1000, "checkpoints/step-00001000", "ab12")
    write_spec(files, AttemptSpec(12, ("python", "train.py"), str(tmp_path), resume, overrides))
    spec = read_spec(files.spec)
    assert (spec.attempt, spec.argv) == (12, ("python", "train.py"))
    assert spec.env == {"SENTINEL_RUN_DIR": str(tmp_path.resolve()), "SENTINEL_ATTEMPT": "12"}
    assert spec.resume is not None
    assert (spec.resume.step, spec.resume.path, spec.resume.digest) == (1000, "checkpoints/step-00001000", "ab12")
    read = spec.overrides
    assert (read.id, read.attempt, read.lr_scale, read.betas, read.skip) == ("ov-7", 12, 0.5, (0.9, 0.95), ((512, 1024),))
    assert read.until == {"lr_scale": 3200}
    assert read.request is None


def test_every_key_is_present_even_with_nothing_asked(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    write_spec(files, AttemptSpec(1, ("true",), str(tmp_path), None, SettingsInForce()))
    written = json.loads(files.spec.read_text())
    assert written["resume"] is None
    protocol = "id attempt incident skip until request lr_scale clip_norm weight_decay betas eps loss_scale reset_optimizer"
    assert set(written["overrides"]) == {*protocol.split(), *SETTINGS, "data_seed", "precision", "checkpoint_interval"}


def test_a_run_directory_has_one_mark_however_it_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    assert AttemptFiles.of(tmp_path / "link", 1).environment == AttemptFiles.of(tmp_path / "run", 1).environment


def test_what_is_skipped_in_a_new_data_order_is_written_with_its_seed(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 2)
    write_spec(files, AttemptSpec(2, ("true",), "/", None, SettingsInForce(data_seed=77, skip=(SampleRange(5, 9),))))
    read = read_spec(files.spec).overrides
    assert (read.data_seed, read.skip) == (77, ((5, 9, 77),))


def test_the_client_reads_which_samples_are_to_be_inspected(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 3)
    write_spec(files, AttemptSpec(3, ("true",), "/", None, SettingsInForce(), (SampleRange(5, 9), SampleRange(20, 30))))
    assert read_spec(files.spec).inspect == ((5, 9), (20, 30))
