"""The compilers: found or said what is missing, run side by side, ended when one fails, hangs or is killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from cuda_ext import compilers
from cuda_ext.build import BuildError, build
from cuda_ext.compilers import find_compiler
from tests.cuda_ext.tiny import write_sources


def test_when_one_source_fails_nobody_waits_for_the_others(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other compiler would wait for twenty seconds, and hold its output open."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    folder = write_sources(tmp_path)
    (folder / "cpu" / "slow.cpp").touch()
    path, slow = script_compiler.parent / "cxx", script_compiler.parent / "slow"
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *slow.cpp*) sleep 20 & touch {slow}; wait;; esac\n'
        f'while [ ! -e {slow} ]; do sleep 0.02; done; echo the last line; exit 3\n',
        encoding="utf-8",
    )
    began_s = time.monotonic()
    with pytest.raises(BuildError, match=r"cxx of doubled.cpp failed with 3\nthe last line"):
        build("cpu", folder)
    assert time.monotonic() - began_s < 15.0


def test_a_compiler_that_hangs_or_is_killed_is_said(
    tmp_path: Path, own_cache: Path, script_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = write_sources(tmp_path), script_compiler.parent / "cxx"
    path.write_text("#!/bin/sh\nkill -9 $$\n", encoding="utf-8")
    with pytest.raises(BuildError, match=r"cxx of doubled.cpp was killed by signal 9 \(out of memory\?\)"):
        build("cpu", folder)
    monkeypatch.setattr(compilers, "COMPILE_S", 0.2)
    path.write_text("#!/bin/sh\nsleep 60\n", encoding="utf-8")
    with pytest.raises(BuildError, match=r"cxx of doubled.cpp took longer than 0 s and was ended"):
        build("cpu", folder, again=True)


@pytest.mark.parametrize(("kind", "remedy"), [("cpu", "apt install g\\+\\+"), ("cuda", "set CUDA_HOME")])
def test_without_a_compiler_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, remedy: str) -> None:
    for name in ("CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BuildError, match=remedy):
        find_compiler(kind)  # type: ignore[arg-type]


def test_a_nvcc_without_the_compiler_that_it_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda word: word if word.endswith("nvcc") else None)
    for name in ("CUDACXX", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BuildError, match=r"nvcc needs g\+\+, which is not on PATH; install it .* or set NVCC_CCBIN"):
        find_compiler("cuda")
    monkeypatch.setenv("NVCC_CCBIN", "clang++")
    assert find_compiler("cuda").path.endswith("nvcc")
