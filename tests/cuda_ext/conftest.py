"""The library of the CPU, built or found once for all of these tests."""

from __future__ import annotations

import pytest
import torch

from cuda_ext.build import BuildError, Built, build
from cuda_ext.registered import register


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Of tensors so small a second thread of torch's takes no work, but spins for it, and that costs more than the work: three
    quarters of these tests' time. The tests of threads ask for theirs."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cpu_library() -> Built:
    """Loaded into torch.ops. Its absence is a reason to skip; that it does not compile is none."""
    try:
        built = build("cpu")
    except BuildError as error:
        if "\n" in str(error):  # a compiler's lines
            raise
        pytest.skip(error.sentence)
    register(built.path)
    return built
