"""What needs a GPU. `make gpu` runs these; where there is none they are skipped, and say so."""

from __future__ import annotations

import pytest
import torch

from cuda_ext.tiers import Tier, load


@pytest.fixture(scope="session")
def cuda() -> Tier:
    """The CUDA library, loaded. On a machine with a GPU it must be there: a library that cannot be built fails the tests."""
    if not torch.cuda.is_available():
        pytest.skip(f"no GPU is visible to torch {torch.__version__}")
    return load("cuda")
