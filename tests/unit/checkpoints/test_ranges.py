"""The ranges of one file are read by several threads where its digest is a tree; verdict, counts and memory are the same."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.checkpoints import recall as recall_module
from sentinel.checkpoints.ranged_file import RangedFile, SharedRanges
from sentinel.checkpoints.recall import Recall
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.file_digest import RANGE_BYTES, TREE, digest_of
from sentinel.telemetry.saved_numbers import check_bytes
from tests.unit.checkpoints.test_memory import Later

SIZE = 2 * RANGE_BYTES + 12_345
DEADLINE_S = 20.0


def save(run_dir: Path, algorithm: str = TREE) -> Path:
    """One safetensors file of three ranges, with a NaN in its last, and a small one beside it."""
    folder = run_dir / "checkpoints" / "step-00000005"
    folder.mkdir(parents=True)
    values = (SIZE - 1000) // 4
    header = json.dumps({"w": {"dtype": "F32", "shape": [values], "data_offsets": [0, values * 4]}}).encode()
    with open(folder / "a.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.write(bytes(4 * values - 4) + b"\x00\x00\xc0\x7f")
    (folder / "note.txt").write_text("hello")
    files = {
        name: {"bytes": (folder / name).stat().st_size, algorithm: digest_of(folder / name, algorithm)}
        for name in ("a.safetensors", "note.txt")
    }
    (folder / "manifest.json").write_text(json.dumps({"v": 1, "step": 5, "attempt": 1, "cursor": 5, "files": files}))
    for name in files:
        os.utime(folder / name, (1, 1))
    return folder


@pytest.mark.parametrize("readers", [1, 2, 4])
def test_a_tree_is_verified_and_counted_as_a_plain_digest_is(tmp_path: Path, readers: int) -> None:
    plain, tree = save(tmp_path / "plain", "sha256"), save(tmp_path / "tree")
    one, many = Counting(plain), Counting(tree)
    assert verify_checkpoint(plain, one, readers=1).ok
    assert verify_checkpoint(tree, many, readers=readers).ok
    assert many.found() == one.found()
    assert [(bad.name, bad.nan) for bad in many.found().bad] == [("w", 1)]


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("place", [100, RANGE_BYTES + 1, SIZE - 2000])
def test_a_flipped_bit_in_any_range_is_damage(tmp_path: Path, place: int, readers: int) -> None:
    folder = save(tmp_path)
    with open(folder / "a.safetensors", "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    verified = verify_checkpoint(folder, readers=readers)
    assert not verified.ok
    assert "a.safetensors: sha256_tree is" in verified.reason


def test_several_threads_read_one_file_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, together, read = save(tmp_path), threading.Barrier(3, timeout=DEADLINE_S), RangedFile._read

    def meet(self: RangedFile, number: int, progressed: Callable[[], None]) -> None:
        if self._number == 3:
            together.wait()
        read(self, number, progressed)

    monkeypatch.setattr(RangedFile, "_read", meet)
    assert verify_checkpoint(folder, readers=3).ok
    assert not together.broken


def test_what_a_helping_thread_cannot_read_is_raised_in_the_turn_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = save(tmp_path), RangedFile._read

    def fail(self: RangedFile, number: int, progressed: Callable[[], None]) -> None:
        if number == 1:
            raise OSError(errno.EIO, "Input/output error")
        read(self, number, progressed)

    monkeypatch.setattr(RangedFile, "_read", fail)
    for readers in (1, 3):
        with pytest.raises(OSError, match="Input/output"):
            verify_checkpoint(folder, readers=readers)


def test_a_helper_leaves_when_nobody_has_a_file(tmp_path: Path) -> None:
    ranges = SharedRanges()
    ranges.begin()
    helper = threading.Thread(target=ranges.help, args=(lambda: None, lambda: False), daemon=True)
    helper.start()
    ranges.end()
    helper.join(DEADLINE_S)
    assert not helper.is_alive()


def test_it_is_remembered_and_read_in_samples_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_module, "SystemClock", Later)
    folder = save(tmp_path)
    first = check_bytes(folder, Recall(tmp_path, folder.name, "sampled", "a"), readers=2).read
    again = check_bytes(folder, Recall(tmp_path, folder.name, "sampled", "b")).read
    assert first is not None
    assert again is not None
    assert (first.read_files, first.sampled_files) == (2, 0)
    assert (again.read_files, again.sampled_files, again.read_bytes) == (0, 2, first.read_bytes)
