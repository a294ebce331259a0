"""What stays is read whole before an older checkpoint is deleted: on real files of the right size, with other bytes inside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sentinel.checkpoints.files import list_checkpoints
from sentinel.errors import GiveUp
from sentinel.model.actions import PruneCheckpoint, ReadAnchor
from sentinel.telemetry import anchors
from sentinel.telemetry.anchors import prune_sound, read_anchor
from tests.unit.checkpoints.test_files import names, save


def place(step: int) -> str:
    return f"checkpoints/step-{step:08d}"


def digests(run_dir: Path) -> dict[int, str]:
    return {found.step: found.digest for found in list_checkpoints(run_dir)}


def prune(run_dir: Path, step: int, sound: int | None) -> str:
    read = "" if sound is None else place(sound)
    return prune_sound(run_dir, PruneCheckpoint("k", step, place(step), digests(run_dir)[step], "x", (), read))


def read(run_dir: Path, step: int) -> str:
    """What is wrong with it; empty where it holds."""
    found = read_anchor(run_dir, ReadAnchor("k", step, place(step), digests(run_dir)[step]))
    return found.damage if found.saved is None else ""


def files_of(run_dir: Path, step: int) -> list[Path]:
    return [path for path in (run_dir / place(step)).rglob("*") if path.is_file() and path.name != "manifest.json"]


def zero(run_dir: Path, step: int) -> None:
    for path in files_of(run_dir, step):
        with open(path, "r+b") as file:
            file.write(bytes(path.stat().st_size))


def test_zeros_of_the_right_size_keep_every_older_one(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        save(tmp_path, step)
    zero(tmp_path, 300)
    assert "sha256 is" in read(tmp_path, 300)
    with pytest.raises(GiveUp, match="is not deleted, for what was read whole and is kept is damaged since"):
        prune(tmp_path, 100, sound=300)
    assert read(tmp_path, 200) == ""
    assert prune(tmp_path, 100, sound=200) == ""
    assert names(tmp_path / "checkpoints") == ["step-00000200", "step-00000300"]


def test_one_that_was_read_and_is_unchanged_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (100, 200):
        save(tmp_path, step)
    monkeypatch.setattr("sentinel.checkpoints.memory.YOUNG_S", -1e9)
    assert read(tmp_path, 200) == ""
    again = anchors.read_anchor(tmp_path, ReadAnchor("k", 200, place(200), digests(tmp_path)[200]))
    assert again.saved is not None
    assert again.saved.read is not None
    assert again.saved.read.read_bytes == 0


def test_a_deletion_that_names_nothing_that_was_read_deletes_nothing(tmp_path: Path) -> None:
    """As one has it that was decided by an older version, and is asked for again by this one."""
    save(tmp_path, 100)
    with pytest.raises(GiveUp, match="none of those that are kept was read whole"):
        prune(tmp_path, 100, sound=None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_now_is_not_damaged(tmp_path: Path) -> None:
    save(tmp_path, 100)
    files_of(tmp_path, 100)[0].chmod(0)
    with pytest.raises(GiveUp, match="Permission denied"):
        read(tmp_path, 100)


def test_what_was_moved_aside_while_it_was_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 100)

    def gone(*args: object, **more: object) -> None:
        shutil.rmtree(tmp_path / place(100))
        raise GiveUp("a file is missing")

    monkeypatch.setattr(anchors, "check_bytes", gone)
    with pytest.raises(GiveUp, match="not there any more"):
        read(tmp_path, 100)
