"""The CPU's library, built or found once for all of these tests; for tests of building a cache and a compiler of their own."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

from cuda_ext.build import BuildError, Built, build
from cuda_ext.compilers import find_compiler
from cuda_ext.registry import register


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Of tensors so small a second thread of torch's takes no work, but spins for it, and that costs more than the work: three
    quarters of these tests' time. The tests of threads ask for theirs."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cpu_library() -> Built:
    """Loaded into torch.ops. That there is no compiler is a reason to skip; that it does not compile is none."""
    try:
        find_compiler("cpu")
    except BuildError as error:
        pytest.skip(error.sentence)
    built = build("cpu")
    register(built.path)
    return built


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sentinel" / "kernels"


@pytest.fixture
def script_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that notes each call, and writes what it is asked for at once, or when the file WAIT_FOR is there."""
    path, calls = tmp_path / "cxx", tmp_path / "calls"
    path.write_text(
        f"#!/bin/sh\necho call >> {calls}\n"
        'for i in $(seq 1000); do [ -z "$WAIT_FOR" -o -e "$WAIT_FOR" ] && break; sleep 0.02; done\n'
        'while [ "$1" != -o ]; do shift; done\necho library > "$2"\n',
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    calls.touch()
    monkeypatch.setenv("CXX", str(path))
    return calls
