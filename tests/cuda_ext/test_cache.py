"""The cache of libraries: one compile for all who ask, whole or not there, whoever shares it, whatever its filesystem lacks."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuda_ext import build as building
from cuda_ext.build import BuildError, Built, build, cached
from cuda_ext.sources import recipe, torch_version
from tests.cuda_ext.tiny import write_sources


def build_at_once(
    folder: Path, go: Path, monkeypatch: pytest.MonkeyPatch, all_started: Callable[[list[str]], bool]
) -> tuple[set[Built], list[str]]:
    """Four build at once; the compiler ends when their messages show that all have started."""
    messages: list[str] = []
    all_there = threading.Event()

    def record_message(sentence: str) -> None:
        messages.append(sentence)
        if all_started(messages):
            all_there.set()

    monkeypatch.setattr(building, "notice", record_message)
    monkeypatch.setenv("WAIT_FOR", str(go))
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(build, "cpu", folder) for _ in range(4)]
        started = all_there.wait(30.0)
        go.touch()
        built = {one.result(timeout=60) for one in futures}
    assert started, messages
    return built, messages


def test_ranks_that_start_together_compile_once(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock excludes another opening of its file, in this process as in another."""
    folder = write_sources(tmp_path)
    built, messages = build_at_once(
        folder, tmp_path / "go", monkeypatch, lambda lines: sum("waiting" in one for one in lines) == 3
    )
    assert len(built) == 1
    assert script_compiler.read_text().count("call") == 2, "one object and one link"
    assert sum("compiling" in one for one in messages) == 1


def test_where_a_filesystem_has_no_locks_all_compile_and_one_library_is_left(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(building.fcntl, "flock", refuse)
    folder = write_sources(tmp_path)
    built, _ = build_at_once(folder, tmp_path / "go", monkeypatch, lambda lines: sum("compiling" in one for one in lines) == 4)
    assert len({one.path for one in built}) == 1
    assert script_compiler.read_text().count("call") == 8
    assert [path.name for path in own_cache.iterdir() if path.is_dir()] == [built.pop().path.parent.name], "nothing else is left"


def test_who_waits_says_so_and_not_for_ever(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_sources(tmp_path)
    monkeypatch.setattr(building, "LOCK_S", 0.0)
    lock = (own_cache / recipe("cpu", folder).key(torch_version())).with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    with building.locked(lock), pytest.raises(BuildError, match=f"it holds {lock}"):
        build("cpu", folder)
    assert "waiting for another process" in capfd.readouterr().err
    assert script_compiler.read_text() == ""


@pytest.mark.parametrize("what", ["nothing", "an empty library", "no log", "a file"])
def test_what_is_half_there_is_no_library_and_is_replaced(
    tmp_path: Path, own_cache: Path, script_compiler: Path, what: str
) -> None:
    folder = write_sources(tmp_path)
    spec = recipe("cpu", folder)
    place = own_cache / spec.key(torch_version())
    place.parent.mkdir(parents=True)
    if what == "a file":
        place.touch()
    else:
        place.mkdir()
    if what == "an empty library":
        (place / "build.log").touch()
        (place / spec.library).touch()
    elif what == "no log":
        (place / spec.library).write_text("library")
    assert cached(spec, torch_version()) is None
    built = build("cpu", folder)
    assert built.path.read_text() == "library\n"
    assert cached(spec, torch_version()) == built
    assert [path.name for path in own_cache.iterdir() if path.is_dir()] == [place.name]


def test_a_library_of_another_user_serves_with_its_log(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    built = build("cpu", write_sources(tmp_path))
    os.utime(built.path.parent, (0, 0))
    monkeypatch.setattr(os, "utime", refuse)
    assert build("cpu", tmp_path / "csrc") == built


def test_a_library_of_the_cache_needs_no_compiler(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build("cpu", write_sources(tmp_path))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cached(recipe("cpu", tmp_path / "csrc"), torch_version()) == built
    assert build("cpu", tmp_path / "csrc") == built


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"Not a directory: .*; set XDG_CACHE_HOME"):
        build("cpu", write_sources(tmp_path))


def test_a_user_without_a_home_is_told_where_the_cache_could_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(BuildError, match="set XDG_CACHE_HOME"):
        build("cpu", write_sources(tmp_path))


def test_old_libraries_go_and_those_in_use_stay(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "KEPT", 2)
    long_ago = time.time() - building.UNUSED_S - 60
    for number in range(4):
        (own_cache / f"key{number}").mkdir(parents=True)
        os.utime(own_cache / f"key{number}", (long_ago - number, long_ago - number))
    os.utime(own_cache / "key3")
    for name in (".building-now", ".building-old"):
        (own_cache / name).mkdir()
    for name in ("new.lock", "old.lock"):
        (own_cache / name).touch()
    for name in (".building-old", "old.lock"):
        os.utime(own_cache / name, (long_ago, long_ago))
    (own_cache / "vanished").symlink_to(own_cache / "nowhere")  # as what another process removes meanwhile
    building.prune(own_cache)
    assert sorted(path.name for path in own_cache.iterdir()) == [".building-now", "key0", "key3", "new.lock", "vanished"]
