"""A log past its cap keeps its beginning, its end, and whoever writes to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sentinel.launcher import log_cap
from sentinel.launcher.log_cap import LOOK_EVERY_S, LogCap, read_log_sizes

CAP, HEAD, TAIL = 1 << 20, 20_000, 30_000


def line(number: int) -> bytes:
    return f"line {number:08d}\n".encode()


def test_it_is_cut_and_the_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rank-00001.err"
    cap = LogCap(tmp_path, CAP, HEAD, TAIL)
    lines = 100_000
    with open(path, "ab", buffering=0) as writer:
        writer.write(b"".join(map(line, range(lines))))
        cap.keep(0.0)
        writer.write(b"after the cut\n")
        first, *rest = path.read_text().splitlines()
        assert first.startswith("[sentinel cut this log at 1400000 bytes; its beginning is in rank-00001.err.head, ")
        assert rest == ["after the cut"]
        assert (tmp_path / "rank-00001.err.head").read_bytes() == b"".join(map(line, range(lines)))[:HEAD]
        assert (tmp_path / "rank-00001.err.tail").read_bytes().endswith(line(lines - 1))
        assert (tmp_path / "rank-00001.err.tail").stat().st_size == TAIL
        writer.write(b"".join(map(line, range(lines))))
        cap.keep(LOOK_EVERY_S / 2)
        assert path.stat().st_size > CAP, "it looks once a second"
        cap.keep(LOOK_EVERY_S)
    assert path.stat().st_size < 200
    assert (tmp_path / "rank-00001.err.head").read_bytes().startswith(line(0)), "the first beginning stays"
    assert not list(tmp_path.glob(".*"))


def test_only_logs_of_ranks_and_launcher_past_the_cap_are_touched(tmp_path: Path) -> None:
    small, notes, launcher = tmp_path / "rank-00000.out", tmp_path / "notes.txt", tmp_path / "launcher.out"
    small.write_bytes(b"x" * (CAP - 1))
    for path in (notes, launcher):
        path.write_bytes(b"x" * (2 * CAP))
    LogCap(tmp_path, CAP, HEAD, TAIL).keep(0.0)
    assert (small.stat().st_size, notes.stat().st_size) == (CAP - 1, 2 * CAP)
    assert launcher.read_text().startswith("[sentinel cut this log")


def test_a_writer_that_does_not_append_leaves_a_hole_and_is_not_cut_for_it(tmp_path: Path) -> None:
    path = tmp_path / "launcher.err"
    cap = LogCap(tmp_path, CAP, HEAD, TAIL)
    with open(path, "wb", buffering=0) as writer:
        writer.write(b"x" * (2 * CAP))
        cap.keep(0.0)
        writer.write(b"goes on\n")
        assert path.stat().st_size > 2 * CAP
        cap.keep(LOOK_EVERY_S)
    assert path.read_bytes().endswith(b"goes on\n")


def test_what_cannot_be_cut_now_is_left(tmp_path: Path) -> None:
    LogCap(tmp_path / "nowhere", CAP).keep(0.0)
    path = tmp_path / "rank-00000.out"
    path.write_bytes(b"x" * (2 * CAP))
    head = tmp_path / ".rank-00000.out.head.tmp"
    head.mkdir()  # no copy can be made: the room matters more
    LogCap(tmp_path, CAP, HEAD, TAIL).keep(0.0)
    assert path.stat().st_size < 200


def test_a_copy_for_which_there_is_no_room_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rank-00000.out"
    path.write_bytes(b"x" * (2 * CAP))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log_cap.os, "replace", refuse)
    LogCap(tmp_path, CAP, HEAD, TAIL).keep(0.0)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_size < 200


def test_the_sizes_of_a_run_are_those_of_every_attempt(tmp_path: Path) -> None:
    for attempt in ("0001", "0002"):
        folder = tmp_path / "attempts" / attempt / "logs"
        folder.mkdir(parents=True)
        (folder / "rank-00000.out").write_bytes(os.urandom(8192))
    assert {str(path.relative_to(tmp_path)) for path in read_log_sizes(tmp_path)} == {
        "attempts/0001/logs/rank-00000.out", "attempts/0002/logs/rank-00000.out"
    }  # fmt: skip
    assert all(size >= 8192 for size in read_log_sizes(tmp_path).values())
