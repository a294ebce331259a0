"""Building: once for all who ask, found again, whole or not there, and said in sentences when it cannot be."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from cuda_ext import build as building
from cuda_ext.build import BuildError, Built, build, cached
from cuda_ext.compilers import find_compiler
from cuda_ext.sources import recipe, torch_version
from tests.cuda_ext.tiny import DOUBLED, write_sources

ROOT = Path(__file__).resolve().parents[2]
needs_a_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler (c++) on PATH")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sentinel" / "kernels"


@pytest.fixture
def script_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that notes each call, and writes what it is asked for at once."""
    path, calls = tmp_path / "cxx", tmp_path / "calls"
    path.write_text(
        f"#!/bin/sh\necho call >> {calls}\n"
        'for i in $(seq 1000); do [ -z "$WAIT_FOR" -o -e "$WAIT_FOR" ] && break; sleep 0.02; done\n'
        'while [ "$1" != -o ]; do shift; done\n: > "$2"\n',
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    calls.touch()
    monkeypatch.setenv("CXX", str(path))
    return calls


def undefined_symbols(library: Path) -> list[str]:
    done = subprocess.run(["nm", "-DC", "--undefined-only", str(library)], capture_output=True, text=True, timeout=60, check=True)
    return [line.split(maxsplit=1)[-1] for line in done.stdout.splitlines()]


@needs_a_compiler
def test_a_library_is_compiled_loaded_and_found_again(tmp_path: Path, own_cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = write_sources(tmp_path)
    built = build("cpu", folder)
    assert "compiling the cpu kernels" in capfd.readouterr().err
    assert built.path.parent.parent == own_cache
    assert "-ffp-contract=off" in built.log
    assert build("cpu", folder) == built
    assert "compiling" not in capfd.readouterr().err
    code = (
        "import sys, torch; from pathlib import Path; from cuda_ext.registered import register\n"
        "library = torch.library.Library('sentinel', 'FRAGMENT'); library.define('doubled(Tensor x) -> Tensor')\n"
        "register(Path(sys.argv[1])); print(torch.ops.sentinel.doubled(torch.arange(3.0)).tolist())\n"
        "try: torch.ops.sentinel.doubled(torch.arange(3))\n"
        "except Exception as error: print(error)\n"
    )
    words = [sys.executable, "-c", code, str(built.path)]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True).stdout.splitlines()
    assert said[0] == "[0.0, 2.0, 4.0]"
    assert "doubled: x: dtype int64, must be one of float32" in said[1]
    if shutil.which("nm"):
        assert not [name for name in undefined_symbols(built.path) if name.startswith(("at::", "c10::"))]


@needs_a_compiler
def test_a_compilers_last_lines_are_told_and_the_next_asks_no_compiler(tmp_path: Path, own_cache: Path) -> None:
    folder = write_sources(tmp_path, DOUBLED.replace("Seen seen", "Unseen seen"))
    with pytest.raises(BuildError, match=r"c\+\+ of doubled.cpp failed with 1") as first:
        build("cpu", folder)
    assert "Unseen" in str(first.value)
    with pytest.raises(BuildError, match="tried 0 s ago; `python -m cuda_ext --build` tries again") as second:
        build("cpu", folder)
    assert "Unseen" in str(second.value)
    assert not [path for path in own_cache.iterdir() if path.is_dir()], "nothing half made is left"


def test_a_failed_compile_is_tried_again_when_a_person_says_so_or_later(
    tmp_path: Path, own_cache: Path, script_compiler: Path
) -> None:
    folder = write_sources(tmp_path)
    made = recipe("cpu", folder)
    failed = (own_cache / made.key(torch_version())).with_suffix(".failed")
    failed.parent.mkdir(parents=True)
    failed.write_text("it failed\nlast line", encoding="utf-8")
    with pytest.raises(BuildError, match="it failed"):
        build("cpu", folder)
    assert script_compiler.read_text() == ""
    long_ago = time.time() - building.FAILED_S - 1
    os.utime(failed, (long_ago, long_ago))
    built = build("cpu", folder)
    assert script_compiler.read_text().count("call") == 2
    assert not failed.exists()
    shutil.rmtree(built.path.parent)
    failed.write_text("it failed", encoding="utf-8")
    assert build("cpu", folder, again=True).path == built.path
    assert script_compiler.read_text().count("call") == 4


def test_ranks_that_start_together_compile_once(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock excludes another opening of its file, in this process as in another. The compiler ends when all others wait."""
    folder, ranks, go = write_sources(tmp_path), 4, tmp_path / "go"
    said: list[str] = []
    all_wait = threading.Event()

    def hear(sentence: str) -> None:
        said.append(sentence)
        if sum("waiting" in one for one in said) == ranks - 1:
            all_wait.set()

    monkeypatch.setattr(building, "say", hear)
    monkeypatch.setenv("WAIT_FOR", str(go))
    with ThreadPoolExecutor(ranks) as pool:
        asked = [pool.submit(build, "cpu", folder) for _ in range(ranks)]
        waited = all_wait.wait(30.0)
        go.touch()
        built = {one.result(timeout=60) for one in asked}
    assert waited
    assert len(built) == 1
    assert script_compiler.read_text().count("call") == 2, "one object and one link"
    assert sum("compiling" in one for one in said) == 1


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


def test_a_change_of_a_source_a_header_or_a_flag_is_another_library(tmp_path: Path) -> None:
    folder = write_sources(tmp_path)
    digests = {recipe("cpu", folder).digest, recipe("cpu", folder, bare=True).digest}
    for name in ("cpu/doubled.cpp", "host_device.h"):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write("// more\n")
        digests.add(recipe("cpu", folder).digest)
    assert len(digests) == 4
    assert recipe("cpu", folder).key("2.11.0") != recipe("cpu", folder).key("2.13.0")
    (folder / "notes.txt").write_text("no source", encoding="utf-8")
    assert recipe("cpu", folder).digest in digests


def test_a_library_of_the_cache_needs_no_compiler(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build("cpu", write_sources(tmp_path))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cached(recipe("cpu", tmp_path / "csrc"), torch_version()) == built
    assert build("cpu", tmp_path / "csrc") == built


@pytest.mark.parametrize(("kind", "remedy"), [("cpu", "apt install g\\+\\+"), ("cuda", "set CUDA_HOME")])
def test_without_a_compiler_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, remedy: str) -> None:
    for name in ("CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BuildError, match=remedy):
        find_compiler(kind)  # type: ignore[arg-type]


def test_without_sources_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"no \\*.cu file in {tmp_path / 'cuda'}"):
        recipe("cuda", tmp_path)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"Not a directory: .*; set XDG_CACHE_HOME"):
        build("cpu", write_sources(tmp_path))


def test_a_torch_that_is_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.10.1+cu126")
    with pytest.raises(BuildError, match=r"torch 2.10.1\+cu126 is older than 2.11"):
        torch_version()


def test_old_libraries_go_and_those_in_use_stay(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "KEPT", 2)
    long_ago = time.time() - building.UNUSED_S - 60
    for number in range(4):
        (own_cache / f"key{number}").mkdir(parents=True)
        os.utime(own_cache / f"key{number}", (long_ago - number, long_ago - number))
    (own_cache / ".building-x").mkdir()
    os.utime(own_cache / "key3")
    building.prune(own_cache)
    assert sorted(path.name for path in own_cache.iterdir()) == [".building-x", "key3"]


def test_the_package_own_library_is_compiled_with_every_file(cpu_library: Built) -> None:
    made = recipe("cpu")
    for source in made.units:
        assert f"-c {source} " in cpu_library.log
