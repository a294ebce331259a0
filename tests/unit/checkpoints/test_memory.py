"""What is remembered of a checkpoint that was read whole holds for exactly those bytes, and never speaks against the manifest."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints import recall as recall_module
from sentinel.checkpoints.memory import (
    STRETCH_BYTES,
    count_stretches,
    draw_stretches,
    forget_gone,
    memory_path,
    read_memory,
)
from sentinel.checkpoints.recall import Recall
from sentinel.errors import GiveUp
from sentinel.model.saved import SAMPLE_SHARE, How, ReadBack, SavedNumbers
from sentinel.telemetry.saved_numbers import check_bytes, verify_saved
from tests.unit.checkpoints.counted import commit

NAME = "step-00000005"
OLD_S = 60.0  # how long ago the files were last changed, as far as the check can tell
SMALL_STRETCH = 64 << 10
SHARD = 40 * SMALL_STRETCH + 5


class Later:
    """A clock on which the files that a test has just written are old."""

    def now_s(self) -> float:
        return 0.0

    def wall_s(self) -> float:
        return time.time() + OLD_S

    def wait(self, event: object, timeout_s: float) -> bool:
        raise AssertionError("nothing waits")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of one large file and two with tensors; stretches are small, so that it has many."""
    monkeypatch.setattr(recall_module, "SystemClock", Later)
    for module in ("memory", "file_check"):
        monkeypatch.setattr(f"sentinel.checkpoints.{module}.STRETCH_BYTES", SMALL_STRETCH)
    monkeypatch.setattr("sentinel.checkpoints.file_check.BLOCK_BYTES", SMALL_STRETCH)
    made = tmp_path / "checkpoints" / NAME
    made.mkdir(parents=True)
    (made / "shard").write_bytes(random.Random(7).randbytes(SHARD))
    save_file({"w": torch.ones(1000)}, made / "a.safetensors")
    save_file({"mask": torch.tensor([0.0, float("-inf")])}, made / "b.safetensors")
    commit(tmp_path, 5)
    return made


def look(folder: Path, how: How, seed: str = "verify/2/5") -> SavedNumbers:
    return verify_saved(folder.parent.parent, folder, how=how, seed=seed)


def read(folder: Path, how: How, seed: str = "verify/2/5") -> ReadBack:
    seen = look(folder, how, seed).read
    assert seen is not None
    return seen


def counts(seen: ReadBack) -> tuple[int, int, int]:
    return seen.read_files, seen.sampled_files, seen.remembered_files


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def rot(path: Path, at: int) -> None:
    """As a disk does it: no time of the file moves. A memory of the file as it then is, with what was read of it before."""
    flip(path, at)
    place = memory_path(path.parent.parent.parent, path.parent.name)
    known = read_memory(place, digest_of(path.parent))
    entry = known.files[path.name]
    moved = recall_module.replace(entry, stamp=recall_module.Stamp.of(os.stat(path)))
    recall_module.write_memory(place, recall_module.RememberedFiles(known.digest, {**known.files, path.name: moved}))


def digest_of(folder: Path) -> str:
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def test_what_was_read_once_is_not_read_again(folder: Path) -> None:
    first, again = look(folder, "remembered"), look(folder, "remembered")
    assert first.read is not None
    assert again.read is not None
    assert counts(first.read) == (3, 0, 0)
    assert counts(again.read) == (0, 0, 3)
    assert again.read.read_bytes == 0
    assert again.read.since_s is not None
    assert again.values == first.values, "the values were counted when it was read, and are known"
    assert again.checked.startswith("3 files, 2.6 MB: 3 remembered since ")
    assert again.checked.endswith(", none read again; 0 B were read")


def test_full_believes_nothing_and_remembers_nothing(folder: Path) -> None:
    assert counts(read(folder, "full")) == (3, 0, 0)
    assert not memory_path(folder.parent.parent, NAME).exists()
    look(folder, "remembered")
    assert counts(read(folder, "full")) == (3, 0, 0)
    assert look(folder, "full").checked.endswith("bytes match their digests")


def test_a_sample_is_the_first_the_last_and_a_share_of_the_rest(folder: Path) -> None:
    look(folder, "sampled")
    seen = read(folder, "sampled")
    assert counts(seen) == (0, 3, 0)
    drawn = draw_stretches(SHARD, "verify/2/5 shard")
    assert {0, 40} < set(drawn)
    assert len(drawn) == 2 + 3  # a share of 39, rounded up
    small = sum((folder / name).stat().st_size for name in ("a.safetensors", "b.safetensors"))
    assert seen.read_bytes == (len(drawn) - 1) * SMALL_STRETCH + 5 + small
    assert seen.seed == "verify/2/5"


@pytest.mark.parametrize("stretches", [0, 1, 2, 3, 17, 18, 19, 1000])
def test_samples_are_the_same_for_the_same_seed_and_others_for_another(stretches: int) -> None:
    drawn = draw_stretches(stretches * STRETCH_BYTES, "a")
    assert drawn == draw_stretches(stretches * STRETCH_BYTES, "a")
    assert count_stretches(stretches * STRETCH_BYTES) == stretches
    between = -(-max(0, stretches - 2) // SAMPLE_SHARE)
    assert len(drawn) == min(stretches, 2) + between
    assert stretches < 1000 or drawn != draw_stretches(stretches * STRETCH_BYTES, "b")


@pytest.mark.parametrize("how", ["sampled", "remembered"])
@pytest.mark.parametrize("at", [0, SHARD // 2 + 12345, SHARD - 1])
def test_a_change_under_the_same_size_and_a_time_set_back_is_read_again_and_condemned(folder: Path, how: How, at: int) -> None:
    look(folder, how)
    before = os.stat(folder / "shard")
    flip(folder / "shard", at)
    os.utime(folder / "shard", ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(folder / "shard")
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(GiveUp, match="shard: sha256 is"):
        look(folder, how)


@pytest.mark.parametrize("how", ["sampled", "remembered"])
def test_another_file_in_its_place_is_read_again(folder: Path, how: How) -> None:
    look(folder, how)
    same = folder / "aside"
    shutil.copy2(folder / "shard", same)
    os.rename(same, folder / "shard")
    assert read(folder, how).read_files == 1
    damaged = folder / "aside"
    shutil.copy2(folder / "shard", damaged)
    flip(damaged, 99)
    os.rename(damaged, folder / "shard")
    with pytest.raises(GiveUp, match="shard: sha256 is"):
        look(folder, how)


def damage_truncated(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-40])


def damage_emptied(place: Path) -> None:
    place.write_bytes(b"")


def damage_one_digit(place: Path) -> None:
    data = bytearray(place.read_bytes())
    at = data.rindex(b'"crcs":[') + 8
    data[at] = ord("1") if data[at] != ord("1") else ord("2")
    place.write_bytes(data)


def damage_no_json(place: Path) -> None:
    text = b'{"v":1,"files":7}\n'
    place.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def damage_fifo(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


@pytest.mark.parametrize("damage", [damage_truncated, damage_emptied, damage_one_digit, damage_no_json, damage_fifo])
@pytest.mark.parametrize("how", ["sampled", "remembered"])
def test_a_damaged_memory_is_none(folder: Path, damage: Callable[[Path], None], how: How) -> None:
    look(folder, how)
    damage(memory_path(folder.parent.parent, NAME))
    assert counts(read(folder, how)) == (3, 0, 0)


def test_a_memory_of_another_manifest_or_of_a_copy_is_none(folder: Path, tmp_path: Path) -> None:
    look(folder, "remembered")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, copy_function=shutil.copy2, ignore=shutil.ignore_patterns("copy"))
    assert counts(read(copy / "checkpoints" / NAME, "remembered")) == (3, 0, 0)
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    assert counts(read(folder, "remembered")) == (3, 0, 0)


def test_a_sample_that_does_not_match_condemns_only_what_the_manifest_condemns(folder: Path) -> None:
    """A wrong CRC in a memory that is whole otherwise: the file is read, and it is as its manifest says."""
    look(folder, "sampled")
    place = memory_path(folder.parent.parent, NAME)
    known = read_memory(place, digest_of(folder))
    entry = known.files["shard"]
    wrong = recall_module.replace(entry, crcs=(entry.crcs[0] ^ 1, *entry.crcs[1:]))
    recall_module.write_memory(place, recall_module.RememberedFiles(known.digest, {**known.files, "shard": wrong}))
    assert counts(read(folder, "sampled")) == (1, 2, 0)
    assert counts(read(folder, "sampled")) == (0, 3, 0), "and is remembered as it is"


def test_a_disk_that_rots_is_found_by_samples_where_they_are_drawn(folder: Path) -> None:
    look(folder, "sampled")
    rot(folder / "shard", 10)
    assert counts(read(folder, "remembered")) == (0, 0, 3), "no time moved: what is not read is not seen"
    with pytest.raises(GiveUp, match="shard: sha256 is"):
        look(folder, "sampled")


def test_a_file_that_was_only_just_written_is_not_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Later, "wall_s", lambda self: os.stat(folder / "shard").st_ctime + 0.5)
    look(folder, "remembered")
    assert counts(read(folder, "remembered")) == (3, 0, 0)


def test_a_file_that_is_written_to_while_it_is_read_is_not_remembered(folder: Path) -> None:
    blocks = []

    def touched() -> None:
        blocks.append(1)
        os.utime(folder / "shard")

    recall = Recall(folder.parent.parent, NAME, "remembered")
    check_bytes(folder, recall, touched, readers=1)
    assert blocks
    assert counts(read(folder, "remembered")) == (1, 0, 2)


def test_a_check_that_was_cut_short_leaves_what_it_had_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a helper that is killed does: what was read by then need not be read again."""
    monkeypatch.setattr(recall_module, "KEEP_EVERY_S", -1.0)
    recall = Recall(folder.parent.parent, NAME, "remembered")
    seen = []

    def dies() -> None:
        seen.append(1)
        if len(seen) == 5:  # in the large file, behind the two small ones
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_bytes(folder, recall, dies, readers=1)
    assert counts(read(folder, "remembered")) == (1, 0, 2)


def test_a_memory_that_cannot_be_written_changes_no_verdict(folder: Path) -> None:
    (folder.parent.parent / "verified").write_bytes(b"a file in its place")
    recall = Recall(folder.parent.parent, NAME, "remembered")
    assert check_bytes(folder, recall).digest == digest_of(folder)
    assert "cannot be written" in recall.trouble


def test_memories_of_checkpoints_that_are_gone_go_too(folder: Path) -> None:
    look(folder, "remembered")
    run_dir = folder.parent.parent
    forget_gone(run_dir)
    assert memory_path(run_dir, NAME).exists()
    shutil.rmtree(folder)
    forget_gone(run_dir)
    assert not memory_path(run_dir, NAME).exists()
