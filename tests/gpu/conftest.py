"""What needs a GPU. `make gpu` runs these; where there is none they are skipped, and say so.

`SENTINEL_GPU_REHEARSAL=1` runs the trainer's step and the whole runs on the CPU where there is no GPU: what is to work on a
borrowed machine has then worked before.
"""

from __future__ import annotations

import os

import pytest
import torch

from cuda_ext.tiers import Tier, load


@pytest.fixture(scope="session")
def cuda() -> Tier:
    """The CUDA library, loaded. On a machine with a GPU it must be there: a library that cannot be built fails the tests."""
    if not torch.cuda.is_available():
        pytest.skip(f"no GPU is visible to torch {torch.__version__}")
    return load("cuda")


@pytest.fixture(scope="session")
def trained_on(request: pytest.FixtureRequest) -> Tier:
    """The library that the trainer's tests run on: the GPU's, or the CPU's in a rehearsal."""
    if os.environ.get("SENTINEL_GPU_REHEARSAL") == "1" and not torch.cuda.is_available():
        return load("cpu")
    tier: Tier = request.getfixturevalue("cuda")
    return tier
