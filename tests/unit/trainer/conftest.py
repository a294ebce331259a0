import pytest
import torch

from trainer.config import parse_arguments
from trainer.parallel import join_world


@pytest.fixture(scope="session")
def world():
    """A world of one rank, joined once for this process."""
    torch.set_num_threads(1)
    return join_world()


@pytest.fixture
def config(tmp_path):
    return parse_arguments(
        ["--preset", "micro", "--steps", "12", "--batch-size", "2", "--seq-len", "16", "--out-dir", str(tmp_path)]
    )
