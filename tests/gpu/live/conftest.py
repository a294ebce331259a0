"""Whole runs on a GPU, as a person starts them: the trainer and the supervisor in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_ext.tiers import Tier

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 180.0
Typed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def kernels(trained_on: Tier) -> str:
    """The tier that must run: cuda, in a rehearsal cpu."""
    return trained_on.name


@pytest.fixture
def typed(kernels: str) -> Typed:
    """Runs `python -m WORDS` in the repository to its end; what it printed is shown where a test fails."""

    def run(*words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        environ = os.environ | {"SENTINEL_KERNELS": kernels, "OMP_NUM_THREADS": "1", "PYTHONPATH": search_path()}
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        print(f"$ {' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        assert code is None or done.returncode == code
        return done

    return run


def search_path() -> str:
    """The repository, and what carried wheels were unpacked into."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
