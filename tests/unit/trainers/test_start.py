"""The trainer's folder before a launch: it goes on from the checkpoint that was chosen, and from no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sentinel.checkpoints.files import list_checkpoints
from sentinel.client.run_layout import stream_path
from sentinel.launcher.exit_report import write_report
from sentinel.model.attempts import ExitReport
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.launching import Trained
from sentinel.trainers.loading import load_profile
from sentinel.trainers.sealing import seal_new
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.start import forget_before, own_folder, prepare, read_before


def spec(root: Path, resume_step: int | None, *, is_first: bool = False) -> TrainerSpec:
    profile = load_profile(f"megatron:root={root}")
    return TrainerSpec(profile, ("train",), {}, "/", root, {}, resume_step, is_first)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ck").mkdir()
    return tmp_path / "ck"


def write(root: Path, *steps: int) -> None:
    for step in steps:
        (root / f"iter_{step:07d}").mkdir()
        (root / f"iter_{step:07d}" / "state").write_text(str(step))
        (root / "latest_checkpointed_iteration.txt").write_text(str(step))


def seal(run_dir: Path, root: Path) -> list[int]:
    places = spec(root, None).profile.spec.checkpoints
    assert places is not None
    there = find_checkpoints(places, root)
    return [one.step for one in seal_new(run_dir, places, there, 1, read_before(run_dir), lambda: float("inf"))]


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize(
    ("status", "command", "steps"),
    [
        (0, ("train",), [20, 40]),
        (-9, ("train",), [20]),
        (0, ("bash", "-c", "python train.py | tee log", "train"), [20]),  # the status of tee
    ],
)
def test_what_was_saved_last_is_whole_where_its_trainer_ended_in_order(
    run_dir: Path, root: Path, status: int, command: tuple[str, ...], steps: list[int]
) -> None:
    """It has no mark of being whole, and was written right before the end."""
    (run_dir / "trainer_before.json").write_text('{"checkpoints": {}}')
    files = AttemptFiles.of(run_dir, 1)
    files.make_folders()
    files.spec.write_text("{}")
    write_report(files, ExitReport(status, (), None, "it ended"))
    for step in (20, 40):
        (root / f"iter_{step:07d}").mkdir()
        (root / f"iter_{step:07d}" / "state").write_text(str(step))
    os.utime(root / "iter_0000020" / "state", (1, 1))
    marked = load_profile(f"megatron:root={root}")
    places = marked.spec.checkpoints
    assert places is not None
    spec = marked.spec.model_copy(update={"checkpoints": places.model_copy(update={"tracker": None})})
    Trained(run_dir, marked.model_copy(update={"spec": spec}), command, "/").seal()
    assert [found.step for found in list_checkpoints(run_dir)] == steps


def test_what_lies_above_is_set_aside_and_the_tracker_names_the_one_chosen(run_dir: Path, root: Path) -> None:
    write(root, 20, 40, 60)
    seal(run_dir, root)
    (root / "iter_0000080").mkdir()  # half written
    done = prepare(run_dir, 2, spec(root, 40))
    assert names(root) == ["iter_0000020", "iter_0000040", "latest_checkpointed_iteration.txt"]
    assert (root / "latest_checkpointed_iteration.txt").read_text() == "40"
    assert len(done) == 3
    assert prepare(run_dir, 2, spec(root, 40)) == [], "done twice, it changes nothing"


def test_one_that_the_trainer_has_deleted_is_put_back(run_dir: Path, root: Path) -> None:
    write(root, 20, 40)
    seal(run_dir, root)
    (root / "iter_0000020" / "state").unlink()
    (root / "iter_0000020").rmdir()
    prepare(run_dir, 2, spec(root, 20))
    assert (root / "iter_0000020" / "state").read_text() == "20"


def test_from_the_beginning_nothing_is_left_to_go_on_from(run_dir: Path, root: Path) -> None:
    write(root, 20)
    prepare(run_dir, 2, spec(root, None))
    assert names(root) == []
    assert len(list((root / ".sentinel-aside").rglob("state"))) == 1, "nothing is deleted"


def test_what_lay_there_before_the_run_is_left_alone_and_is_none_of_its_checkpoints(run_dir: Path, root: Path) -> None:
    write(root, 20, 900)
    assert prepare(run_dir, 1, spec(root, None, is_first=True)) == []
    (root / "iter_0000040").mkdir()
    (root / "iter_0000040" / "state").write_text("40")
    assert seal(run_dir, root) == [40]
    prepare(run_dir, 2, spec(root, None))
    assert names(root) == ["iter_0000020", "iter_0000900"]


def test_a_trainer_that_went_on_by_itself_makes_what_it_went_on_from_its_own(run_dir: Path, root: Path) -> None:
    write(root, 20, 40, 900)
    prepare(run_dir, 1, spec(root, None, is_first=True))
    places = spec(root, None).profile.spec.checkpoints
    assert places is not None
    forget_before(run_dir, root, places, 40)
    assert seal(run_dir, root) == [20, 40]


def test_it_does_also_where_its_follower_ended_right_behind_the_receipt(run_dir: Path, root: Path) -> None:
    write(root, 20, 40, 900)
    prepare(run_dir, 1, spec(root, None, is_first=True))
    trained = Trained(run_dir, spec(root, None).profile, ("train",), "/")
    AttemptFiles.of(run_dir, 1).make_folders()
    AttemptFiles.of(run_dir, 1).spec.write_text("{}")
    trained.seal()
    assert list_checkpoints(run_dir) == []
    receipt = {"kind": "start", "v": 1, "attempt": 1, "time_s": 1.0, "resume_step": 40, "world_size": 1, "adopted": True}
    stream_path(run_dir, 1).write_text(json.dumps(receipt) + "\n")
    trained.seal()
    assert [found.step for found in list_checkpoints(run_dir)] == [20, 40]


def test_a_checkpoint_that_was_never_sealed_is_refused(run_dir: Path, root: Path) -> None:
    write(root, 20)
    with pytest.raises((OSError, ValueError)):
        prepare(run_dir, 2, spec(root, 20))
    assert names(root) == ["iter_0000020", "latest_checkpointed_iteration.txt"]


def test_two_runs_do_not_share_a_folder(root: Path) -> None:
    lock = own_folder(root, deadline_s=0.0)
    with pytest.raises(OSError, match="another run of Sentinel trains in it"):
        own_folder(root, deadline_s=0.0)
    os.close(lock)
    os.close(own_folder(root, deadline_s=0.0))


def test_a_tracker_that_names_a_missing_step_is_mended(run_dir: Path, root: Path) -> None:
    write(root, 20, 40)
    seal(run_dir, root)
    (root / "latest_checkpointed_iteration.txt").write_text("999")
    prepare(run_dir, 2, spec(root, 40))
    assert (root / "latest_checkpointed_iteration.txt").read_text() == "40"


def test_what_lies_there_before_the_first_start_is_not_sealed(run_dir: Path, root: Path) -> None:
    write(root, 20, 900)
    trained = Trained(run_dir, spec(root, None).profile, ("train",), "/")
    trained.seal()
    assert not (run_dir / "checkpoints").exists()
    prepare(run_dir, 1, spec(root, None, is_first=True))
    write(root, 40)
    trained.seal()
    assert [path.name for path in (run_dir / "checkpoints").iterdir()] == ["step-00000040"]
