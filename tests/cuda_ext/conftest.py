"""The library of the CPU, built or found once for all of these tests."""

from __future__ import annotations

import pytest

from cuda_ext.build import BuildError, Built, build
from cuda_ext.registered import register


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
