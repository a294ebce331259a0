"""Deleting a checkpoint that was given up: the very one, never half of it, and no harm when it cannot be."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sentinel.checkpoints import pruning as checkpoint_pruning
from sentinel.checkpoints.files import PRUNED, list_checkpoints
from sentinel.checkpoints.pruning import prune_checkpoint
from sentinel.checkpoints.quarantine import quarantine_above
from sentinel.errors import GiveUp
from tests.unit.checkpoints.test_files import names, save


def prune(run_dir: Path, step: int, digest: str | None = None) -> str:
    path = f"checkpoints/step-{step:08d}"
    known = {found.step: found.digest for found in list_checkpoints(run_dir)}
    return prune_checkpoint(run_dir, path, step, digest or known[step])


def test_one_is_deleted_and_the_others_stay(tmp_path: Path) -> None:
    for step in (100, 200):
        save(tmp_path, step)
    assert prune(tmp_path, 100) == ""
    assert names(tmp_path / "checkpoints") == ["step-00000200"]


def test_done_twice_nothing_more_is_deleted(tmp_path: Path) -> None:
    save(tmp_path, 100)
    (found,) = list_checkpoints(tmp_path)
    assert prune(tmp_path, 100) == ""
    assert prune(tmp_path, 100, found.digest) == ""
    assert names(tmp_path / "checkpoints") == []


def test_nothing_is_deleted_while_a_file_of_those_that_are_kept_is_missing_or_of_another_size(tmp_path: Path) -> None:
    """A trainer's disk wrote empty files for hours, and every whole checkpoint of before was given up for them."""
    for step in (100, 200, 300):
        save(tmp_path, step)
    anchors = [f"checkpoints/step-{step:08d}" for step in (200, 300)]
    (old, *_) = list_checkpoints(tmp_path)
    file = next(place for place in (tmp_path / anchors[1]).rglob("*") if place.is_file() and place.name != "manifest.json")
    before = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(GiveUp, match=f"step-00000100 is not deleted, for of those that are kept .*0 bytes.*says {len(before)}"):
        prune_checkpoint(tmp_path, old.path, 100, old.digest, anchors)
    file.unlink()
    with pytest.raises(GiveUp, match="cannot be looked at"):
        prune_checkpoint(tmp_path, old.path, 100, old.digest, anchors)
    file.write_bytes(before)
    assert prune_checkpoint(tmp_path, old.path, 100, old.digest, anchors) == ""
    assert names(tmp_path / "checkpoints") == ["step-00000200", "step-00000300"]


def test_killed_while_deleting_leaves_nothing_that_looks_like_a_checkpoint_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies_halfway(path: str) -> None:
        os.unlink(Path(path) / ".metadata")
        raise Killed

    save(tmp_path, 100)
    (found,) = list_checkpoints(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", dies_halfway)
        with pytest.raises(Killed):
            prune(tmp_path, 100)
    (left,) = names(tmp_path / "checkpoints")
    assert left.startswith(PRUNED)
    assert list_checkpoints(tmp_path) == []
    assert quarantine_above(tmp_path, 0, 1) == (), "it is nobody's unfinished save"
    assert prune(tmp_path, 100, found.digest) == ""
    assert names(tmp_path / "checkpoints") == []


def test_one_that_has_changed_since_is_not_deleted(tmp_path: Path) -> None:
    save(tmp_path, 100)
    (old,) = list_checkpoints(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints/step-00000100")
    save(tmp_path, 100, attempt=2)
    with pytest.raises(GiveUp, match="its manifest has changed since"):
        prune(tmp_path, 100, old.digest)
    assert [found.attempt for found in list_checkpoints(tmp_path)] == [2]


def test_another_of_the_same_name_saved_after_it_was_taken_away_stays(tmp_path: Path) -> None:
    save(tmp_path, 100)
    (old,) = list_checkpoints(tmp_path)
    folder = tmp_path / "checkpoints"
    (folder / "step-00000100").rename(folder / f"{PRUNED}step-00000100-{old.digest[:12]}")
    save(tmp_path, 100, attempt=2)
    assert prune(tmp_path, 100, old.digest) == ""
    assert names(folder) == ["step-00000100"]


@pytest.mark.parametrize("path", ["checkpoints/step-00000200", "checkpoints/../x/step-00000100", "quarantine/step-00000100", "/"])
def test_only_the_named_checkpoint_of_this_run_can_be_meant(tmp_path: Path, path: str) -> None:
    with pytest.raises(GiveUp, match="is no checkpoint of step 100 of this run"):
        prune_checkpoint(tmp_path, path, 100, "d")


def test_a_directory_without_our_manifest_is_somebody_elses(tmp_path: Path) -> None:
    (save(tmp_path, 100) / "manifest.json").unlink()
    with pytest.raises(GiveUp, match="no manifest of its own"):
        prune(tmp_path, 100, "d")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = save(tmp_path / "other", 100)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step-00000100").symlink_to(elsewhere)
    with pytest.raises(GiveUp, match="is a link"):
        prune(tmp_path, 100)
    assert (elsewhere / "manifest.json").exists()


def test_checkpoints_may_lie_behind_a_link(tmp_path: Path) -> None:
    save(tmp_path / "scratch", 100)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoints").symlink_to(tmp_path / "scratch/checkpoints")
    assert prune(tmp_path / "run", 100) == ""
    assert names(tmp_path / "scratch/checkpoints") == []


def test_what_cannot_be_renamed_stays_whole_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    save(tmp_path, 100)
    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(GiveUp, match="cannot be taken away: Permission denied"):
        prune(tmp_path, 100)
    assert [found.step for found in list_checkpoints(tmp_path)] == [100]


def test_what_cannot_be_deleted_is_hidden_told_and_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise OSError(errno.EACCES, "Permission denied", path)

    for step in (100, 200):
        save(tmp_path, step)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_pruning.shutil, "rmtree", refused)
        said = prune(tmp_path, 100)
    assert "cannot be deleted yet: Permission denied" in said
    assert [found.step for found in list_checkpoints(tmp_path)] == [200]
    assert prune(tmp_path, 200) == ""
    assert names(tmp_path / "checkpoints") == []
