import pytest
import torch

from trainer.command_line import parse_arguments
from trainer.parallel import join_world


@pytest.fixture(scope="session")
def world():
    """A world of one rank, joined once for this process."""
    torch.set_num_threads(1)
    return join_world()


@pytest.fixture
def launch(tmp_path):
    sizes = "schedule.steps=12", "data.batch_size=2", "data.seq_len=16"
    return parse_arguments(["--preset", "micro", "--set", *sizes, "--out-dir", str(tmp_path)])


@pytest.fixture
def config(launch):
    return launch.config
