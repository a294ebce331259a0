"""A folder in which the profile's pattern matches nothing: whose checkpoints lie there, and when a start is refused."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from sentinel.client.run_layout import spec_path
from sentinel.trainers import start
from sentinel.trainers.loading import load_profile
from sentinel.trainers.mismatch import find_mismatch, reason_against_scratch
from sentinel.trainers.profile import CheckpointFiles
from sentinel.trainers.sealer import why_nothing_matches
from sentinel.trainers.spec import TrainerSpec


def places_of(name: str) -> CheckpointFiles:
    places = load_profile(name).spec.checkpoints
    assert places is not None
    return places


def write_hf(root: Path, *steps: int) -> None:
    for step in steps:
        folder = root / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text("{}")


def a_spec(root: Path, cwd: Path, is_first: bool = False) -> TrainerSpec:
    profile = load_profile("megatron")
    return TrainerSpec(profile, ("true",), {}, str(cwd), root, {}, None, is_first)


def write_spec(run_dir: Path, attempt: int, spec: TrainerSpec) -> None:
    path = spec_path(run_dir, attempt)
    (path.parent / "logs").mkdir(parents=True)
    (path.parent / "exits").mkdir()
    path.write_text(json.dumps({"cwd": spec.cwd, "resume": None, "trainer": spec.to_json()}))


def test_the_sentence_names_what_lies_there_and_the_profile_that_it_fits(tmp_path: Path) -> None:
    write_hf(tmp_path, 50, 100)
    mismatch = find_mismatch(places_of("megatron"), tmp_path)
    assert mismatch is not None
    assert mismatch.sentence == (
        f"no file matches iter_{{step:07d}} under {tmp_path}; there are checkpoint-50, checkpoint-100: --trainer hf-trainer?"
    )
    assert why_nothing_matches(a_spec(tmp_path, tmp_path)) == mismatch.sentence


def test_it_says_what_lies_there_where_no_shipped_profile_fits(tmp_path: Path) -> None:
    (tmp_path / "epoch_3.bin").touch()
    assert "there is epoch_3.bin" in why_nothing_matches(a_spec(tmp_path, tmp_path))
    assert "is not there" in why_nothing_matches(a_spec(tmp_path / "nowhere", tmp_path))


def test_nothing_is_said_where_one_is_found(tmp_path: Path) -> None:
    write_hf(tmp_path, 50)
    assert find_mismatch(places_of("hf-trainer"), tmp_path) is None


def test_the_folder_below_the_root_is_another_profile_s_own(tmp_path: Path) -> None:
    """torchtitan keeps them in dump_folder/checkpoint, hf-trainer in output_dir itself."""
    write_hf(tmp_path, 50)
    mismatch = find_mismatch(places_of("torchtitan"), tmp_path / "checkpoint")
    assert mismatch is not None
    assert [other.profile for other in mismatch.others] == ["hf-trainer"]
    (tmp_path / "titan/checkpoint/step-10").mkdir(parents=True)
    mismatch = find_mismatch(places_of("hf-trainer"), tmp_path / "titan")
    assert mismatch is not None
    assert [other.profile for other in mismatch.others] == ["torchtitan"]


def test_a_later_attempt_from_scratch_is_refused_where_the_run_has_written_another_s(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "out"
    write_spec(run_dir, 1, a_spec(root, tmp_path, is_first=True))
    write_spec(run_dir, 2, a_spec(root, tmp_path))
    write_hf(root, 50)
    assert start.main([str(run_dir), "2"]) == start.CANNOT_PREPARE
    told = capfd.readouterr().err
    assert "there are checkpoint-50: --trainer hf-trainer?" in told
    assert "run it again with --trainer hf-trainer" in told
    assert (root / "checkpoint-50").is_dir()
    record = json.loads((run_dir / "attempts/0002/exits/rank-00000.json").read_text())
    assert record["code"] == start.CANNOT_PREPARE
    assert record["error"] in told  # the incident and its page quote it


def test_what_lay_there_before_the_run_keeps_nothing_from_starting(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "out"
    write_hf(root, 50)
    os.utime(root / "checkpoint-50/trainer_state.json", (1_000_000, 1_000_000))
    write_spec(run_dir, 1, a_spec(root, tmp_path, is_first=True))
    assert start.prepare(run_dir, 2, a_spec(root, tmp_path)) == []


def test_the_first_attempt_is_never_refused(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "out"
    write_spec(run_dir, 1, a_spec(root, tmp_path, is_first=True))
    write_hf(root, 50)
    assert start.prepare(run_dir, 1, a_spec(root, tmp_path, is_first=True)) == []


def test_a_checkpoint_of_which_no_step_can_be_read_is_not_trained_over(tmp_path: Path) -> None:
    """A loop after nanoGPT's that saves by pickle alone, or under another key."""
    root, run_dir = tmp_path / "out", tmp_path / "run"
    write_spec(run_dir, 1, a_spec(root, tmp_path))
    root.mkdir()
    (root / "ckpt.pt").write_bytes(pickle.dumps({"iter_num": 50, "model": "weights"}))
    mismatch = find_mismatch(places_of("nanogpt"), root)
    assert mismatch is not None
    assert mismatch.sentence == (
        f"ckpt.pt under {root} shows no step: no whole number under 'iter_num' in a dictionary that torch.save wrote; name the "
        "key that holds it (checkpoints: {step_key: KEY})"
    )
    assert reason_against_scratch(run_dir, places_of("nanogpt"), root).endswith("would write over it")
    os.utime(root / "ckpt.pt", (0, 0))  # it lay there before the run began
    assert reason_against_scratch(run_dir, places_of("nanogpt"), root) == ""


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off"])
def test_one_that_is_cut_off_holds_nothing_to_be_lost(tmp_path: Path, content: bytes) -> None:
    write_spec(tmp_path / "run", 1, a_spec(tmp_path, tmp_path))
    (tmp_path / "ckpt.pt").write_bytes(content)
    assert reason_against_scratch(tmp_path / "run", places_of("nanogpt"), tmp_path) == ""
