"""Building: once for all who ask, found again, whole or not there, and said in sentences when it cannot be."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from cuda_ext import build as building
from cuda_ext.build import BuildError, Built, build
from cuda_ext.compilers import find_compiler
from cuda_ext.registry import register
from cuda_ext.sources import PACKAGE, recipe, torch_version
from tests.cuda_ext.tiny import write_sources

needs_a_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler (c++) on PATH")


def undefined_symbols(library: Path) -> list[str]:
    done = subprocess.run(["nm", "-DC", "--undefined-only", str(library)], capture_output=True, text=True, timeout=60, check=True)
    return [line.split(maxsplit=1)[-1] for line in done.stdout.splitlines()]


@needs_a_compiler
def test_a_library_is_compiled_loaded_and_found_again(tmp_path: Path, own_cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The one without statistics, under its own namespace: the other is compiled once for all tests, of the package's sources."""
    folder = write_sources(tmp_path)
    built = build("cpu", folder, bare=True)
    assert "compiling the cpu kernels" in capfd.readouterr().err
    assert built.path.parent.parent == own_cache
    assert "-ffp-contract=off" in built.log
    assert build("cpu", folder, bare=True) == built
    assert "compiling" not in capfd.readouterr().err
    library = torch.library.Library("sentinel_bare", "FRAGMENT")
    library.define("doubled(Tensor x) -> Tensor")
    register(built.path)
    assert torch.ops.sentinel_bare.doubled(torch.arange(3.0) + 1).tolist() == [0.0, 4.0, 6.0], "its statistics are compiled out"
    with pytest.raises((ValueError, RuntimeError), match="doubled: x: dtype int64, must be one of float32"):
        torch.ops.sentinel_bare.doubled(torch.arange(3))
    if shutil.which("nm"):
        assert not [name for name in undefined_symbols(built.path) if name.startswith(("at::", "c10::"))]


@needs_a_compiler
def test_a_compilers_last_lines_are_told_and_the_next_asks_no_compiler(tmp_path: Path, own_cache: Path) -> None:
    folder = write_sources(tmp_path, "int seen = Unseen;\n")
    with pytest.raises(BuildError, match=r"of doubled.cpp failed with 1") as first:
        build("cpu", folder)
    assert first.value.sentence == f"{Path(find_compiler('cpu').path).name} of doubled.cpp failed with 1"
    assert "Unseen" in str(first.value)
    with pytest.raises(BuildError, match="tried 0 s ago; `python -m cuda_ext --build` tries again") as second:
        build("cpu", folder)
    assert "Unseen" in str(second.value)
    assert not [path for path in own_cache.iterdir() if path.is_dir()], "nothing half made is left"


def test_a_failed_compile_is_tried_again_when_a_person_says_so_or_later(
    tmp_path: Path, own_cache: Path, script_compiler: Path
) -> None:
    folder = write_sources(tmp_path)
    spec = recipe("cpu", folder)
    failed = (own_cache / spec.key(torch_version())).with_suffix(".failed")
    failed.parent.mkdir(parents=True)
    failed.write_text("it failed\nlast line", encoding="utf-8")
    with pytest.raises(BuildError, match="it failed"):
        build("cpu", folder)
    assert script_compiler.read_text() == ""
    ahead = time.time() + 30  # by a file server's clock
    os.utime(failed, (ahead, ahead))
    with pytest.raises(BuildError, match="tried 0 s ago"):
        build("cpu", folder)
    long_ago = time.time() - building.FAILED_S - 1
    os.utime(failed, (long_ago, long_ago))
    built = build("cpu", folder)
    assert script_compiler.read_text().count("call") == 2
    assert not failed.exists()
    shutil.rmtree(built.path.parent)
    failed.write_text("it failed", encoding="utf-8")
    assert build("cpu", folder, again=True).path == built.path
    assert script_compiler.read_text().count("call") == 4


def test_a_change_of_a_source_a_header_or_a_flag_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_sources(tmp_path)
    digests = {recipe("cpu", folder).digest, recipe("cpu", folder, bare=True).digest}
    for name in ("cpu/doubled.cpp", "host_device.h"):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write("// more\n")
        digests.add(recipe("cpu", folder).digest)
    assert len(digests) == 4
    assert recipe("cpu", folder).key("2.11.0") != recipe("cpu", folder).key("2.13.0")
    key = recipe("cuda", PACKAGE / "csrc").key("2.11.0")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.1"))
    assert recipe("cuda", PACKAGE / "csrc").key("2.11.0") != key, "machines of several kinds may share a home"
    (folder / "notes.txt").write_text("no source", encoding="utf-8")
    assert recipe("cpu", folder).digest in digests


def test_without_sources_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"no \\*.cu file in {tmp_path / 'cuda'}"):
        recipe("cuda", tmp_path)


def test_a_torch_that_is_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.10.1+cu126")
    with pytest.raises(BuildError, match=r"torch 2.10.1\+cu126 is older than 2.11"):
        torch_version()


@pytest.mark.parametrize("error", [ImportError("No module named 'torch'"), OSError("libcudart.so.13: cannot open\nmore")])
def test_a_torch_that_cannot_be_imported_is_said(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Refusing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "torch":
                raise error

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    with pytest.raises(BuildError, match=r"torch cannot be imported \((No module .*|libcudart.so.13: cannot open)\); install"):
        torch_version()


def test_the_package_own_library_is_compiled_with_every_file(cpu_library: Built) -> None:
    """Whichever copy of the same sources it was that compiled it into the cache, which the copies of a user share."""
    spec = recipe("cpu")
    for source in spec.units:
        assert f"/{source.relative_to(spec.folder.parent)} -o " in cpu_library.log
