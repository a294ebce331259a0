"""What is made in a run directory is as closed as the directory, under every umask; elsewhere the umask decides."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.client.atomic_file import ensure_directory, write_atomically
from sentinel.client.closed_files import closed, is_shared, make_folder, open_closed
from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.session import Session
from sentinel.client.spec import Spec


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


@pytest.mark.parametrize(("of_folder", "of_file", "below"), [(0o700, 0o600, 0o700), (0o2750, 0o640, 0o2750)])
def test_files_and_folders_follow_the_run_directory(folder: Path, umask: int, of_folder: int, of_file: int, below: int) -> None:
    folder.chmod(of_folder)
    write_atomically(folder / "a" / "b" / "whole.json", b"{}")
    os.close(open_closed(folder / "a" / "log", os.O_WRONLY))
    with open(folder / "a" / "text", "a", opener=closed) as file:
        file.write("x")
    assert [mode(folder / name) for name in ("a", "a/b")] == [below, below]
    assert [mode(folder / "a" / name) for name in ("b/whole.json", "log", "text")] == [of_file] * 3


@pytest.mark.parametrize(("of_folder", "of_file", "below"), [(0o700, 0o600, 0o700), (0o2750, 0o640, 0o2750)])
def test_so_does_all_that_a_trainers_session_writes(folder: Path, umask: int, of_folder: int, of_file: int, below: int) -> None:
    folder.chmod(of_folder)
    session = Session(folder, Spec(1))
    session.heartbeat(1, "init")
    session.start(resume_step=0, resume_digest=None, world_size=1, params=1, tokens_per_step=1, effective={})
    session.end(1, "failed")
    session.record_exit(1, "no")
    made = list(folder.rglob("*"))
    assert len([path for path in made if path.is_file()]) >= 3
    assert {mode(path) for path in made if path.is_dir()} == {below}
    assert {mode(path) for path in made if path.is_file()} == {of_file}


def test_elsewhere_the_umask_decides(folder: Path, umask: int) -> None:
    folder.chmod(0o755)
    write_atomically(folder / "sub" / "file", b"")
    assert mode(folder / "sub") == 0o755 & ~umask
    assert mode(folder / "sub" / "file") == 0o644 & ~umask


def test_a_folder_that_everybody_may_write_makes_no_file_that_everybody_may_write(folder: Path) -> None:
    before = os.umask(0)
    try:
        folder.chmod(0o777)
        HeartbeatFile(folder / "beats" / "rank").write({})
        ensure_directory(folder / "deep" / "er")
    finally:
        os.umask(before)
    assert (mode(folder / "beats" / "rank"), mode(folder / "deep" / "er")) == (0o644, 0o755)


def test_what_is_there_keeps_its_mode_and_a_file_is_no_folder(folder: Path) -> None:
    folder.chmod(0o700)
    (folder / "there").write_text("x")
    (folder / "there").chmod(0o644)
    os.close(open_closed(folder / "there", os.O_WRONLY))
    assert mode(folder / "there") == 0o644
    with pytest.raises(FileExistsError):
        make_folder(folder / "there")
    with pytest.raises(FileNotFoundError):
        make_folder(folder / "no" / "such")


@pytest.mark.parametrize(("bits", "shared"), [(0o2750, True), (0o2770, False), (0o750, False), (0o2755, False), (0o700, False)])
def test_shared_means_read_by_the_group_and_nobody_else(bits: int, shared: bool) -> None:
    assert is_shared(bits) is shared
