import pytest
import torch

from trainer.command_line import parse_arguments
from trainer.fused import choose
from trainer.world import join_world


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Everything here is too small to gain from more, and the other cores are at work."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def world():
    """A world of one rank, joined once for this process."""
    return join_world()


@pytest.fixture(params=["torch", "fused"])
def fused(request, world):
    """Both ways a run can compute: on plain PyTorch, and on our own kernels, of the best tier that this machine has."""
    if request.param == "fused":
        choose(None, world)
    return request.param == "fused"


@pytest.fixture
def launch(tmp_path):
    sizes = "schedule.steps=12", "data.batch_size=2", "data.seq_len=16"
    return parse_arguments(["--preset", "micro", "--set", *sizes, "--out-dir", str(tmp_path)])


@pytest.fixture
def config(launch):
    return launch.config
