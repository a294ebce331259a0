"""Several files of a checkpoint are read at a time: the verdict, the counts and the errors are those of one after the other."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints import file_check, verification
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.errors import GiveUp

FILES = 12
DEADLINE_S = 20.0


def save(run_dir: Path) -> Path:
    """Files of many sizes, and two with tensors, one of which holds a NaN."""
    folder = run_dir / "checkpoints" / "step-00000005"
    folder.mkdir(parents=True)
    dice = random.Random(5)
    for number in range(FILES):
        (folder / f"shard-{number:02d}").write_bytes(dice.randbytes(dice.choice((0, 1, 70_000, 3_000_000))))
    save_file({"good": torch.ones(1000)}, folder / "a.safetensors")
    save_file({"bad": torch.tensor([1.0, float("nan")])}, folder / "z.safetensors")
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    (folder / "manifest.json").write_text(json.dumps({"v": 1, "step": 5, "attempt": 1, "cursor": 5, "files": files}))
    return folder


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes() or b"x")
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("readers", [2, 5, 64])
def test_a_whole_checkpoint_is_whole_and_its_values_are_counted_alike(tmp_path: Path, readers: int) -> None:
    folder = save(tmp_path)
    one, many = Counting(folder), Counting(folder)
    assert verify_checkpoint(folder, many, readers=readers) == verify_checkpoint(folder, one, readers=1)
    assert many.found() == one.found()
    assert [bad.name for bad in many.found().bad] == ["bad"]


@pytest.mark.parametrize("damage", ["flip", "cut", "absent", "link"])
def test_of_several_that_are_damaged_the_first_in_the_manifest_is_told(tmp_path: Path, damage: str) -> None:
    folder = save(tmp_path)
    for name in ("shard-07", "shard-11", "z.safetensors"):
        flip(folder / name)
    first = folder / "shard-04"
    match damage:
        case "flip":
            flip(first)
        case "cut":
            first.write_bytes(first.read_bytes() + b"!")
        case "absent":
            first.unlink()
        case "link":
            first.rename(tmp_path / "elsewhere")
            first.symlink_to(tmp_path / "elsewhere")
    seen = verify_checkpoint(folder, readers=4)
    assert seen == verify_checkpoint(folder, readers=1)
    assert not seen.ok
    assert str(first) in seen.reason


def test_what_cannot_be_read_now_says_nothing_about_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path)

    def fails(path: Path, mode: str, **how: Any) -> BinaryIO:
        if path.name == "shard-03":
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return open(path, "rb")

    monkeypatch.setattr(file_check, "open", fails, raising=False)
    with pytest.raises(OSError, match="shard-03"):
        verify_checkpoint(folder, readers=4)


@pytest.mark.parametrize("readers", [1, 3])
def test_whatever_a_reader_raises_is_raised_and_nothing_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    folder = save(tmp_path)

    def fails(self: object, name: str, size: int) -> None:
        if name == "shard-03":
            raise MemoryError("no more")

    monkeypatch.setattr(Counting, "begin", fails)
    with pytest.raises(MemoryError, match="no more"):
        verify_checkpoint(folder, Counting(folder), readers=readers)


@pytest.mark.parametrize("started", [0, 1, 2])
def test_a_limit_of_processes_says_nothing_about_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    folder, start, left = save(tmp_path), threading.Thread.start, [started]

    def limited(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", limited)
        assert verify_checkpoint(folder, readers=4).ok


def test_the_reasons_that_are_kept_do_not_depend_on_who_was_first(tmp_path: Path) -> None:
    folder = save(tmp_path)
    counting = [Counting(folder), Counting(folder)]
    for number in range(60):
        counting[0]._note(f"file-{number:02d}", "why")
        counting[1]._note(f"file-{59 - number:02d}", "why")
    assert counting[0].found() == counting[1].found()
    assert counting[0].found().unread[-1] == "40 more"


def test_a_check_that_nobody_waits_for_any_more_ends_and_leaves_no_thread(tmp_path: Path) -> None:
    folder = save(tmp_path)

    def given_up() -> None:
        raise GiveUp("nothing was heard of it for too long")

    with pytest.raises(GiveUp):
        verify_checkpoint(folder, progressed=given_up, readers=3)
    for thread in [one for one in threading.enumerate() if one.name.startswith("sentinel-verifies")]:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_a_read_that_never_returns_makes_no_progress_and_does_not_keep_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives acts a deadline hears no progress from it, while the other files are read to their end."""
    folder, asked, release = save(tmp_path), threading.Event(), threading.Event()

    def hangs(path: Path, mode: str, **how: Any) -> BinaryIO:
        if path.name == "shard-00":
            asked.set()
            assert release.wait(DEADLINE_S)
        return open(path, "rb")

    monkeypatch.setattr(file_check, "open", hangs, raising=False)
    monkeypatch.setattr(verification, "PROGRESS_EVERY_S", 0.01)
    calls: list[int] = []
    ended: list[verification.Verification] = []
    progressed = threading.Event()

    def note() -> None:
        calls.append(1)
        progressed.set()

    check = threading.Thread(target=lambda: ended.append(verify_checkpoint(folder, progressed=note, readers=2)))
    check.start()
    assert asked.wait(DEADLINE_S)
    assert progressed.wait(DEADLINE_S), "the other files are read meanwhile"
    stuck = [one for one in threading.enumerate() if one.name.startswith("sentinel-verifies")]
    assert stuck
    assert all(one.daemon for one in stuck)
    assert not ended
    release.set()
    check.join(DEADLINE_S)
    assert [result.ok for result in ended] == [True]
