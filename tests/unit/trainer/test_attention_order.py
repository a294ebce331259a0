"""Which fused attention is tried first: cuDNN's on the GPUs it is made for, as asked elsewhere, and nothing changes on a CPU."""

import pytest
import torch
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends

from trainer.model import attention_order
from trainer.model.attention_order import CUDNN_FIRST, FLASH_FIRST, order_of, put_in_order

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture
def capability(monkeypatch):
    def is_(major, minor):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, minor))

    return is_


@pytest.fixture
def torch_order():
    """As it was; whatever a test puts in force is taken back."""
    before = _cur_sdpa_kernel_backends(with_priority=True)
    yield before
    attention_order._in_force.close()
    assert _cur_sdpa_kernel_backends(with_priority=True) == before


@pytest.mark.parametrize("choice", ["auto", "cudnn", "flash", "torch"])
def test_on_a_cpu_nothing_changes(choice, torch_order):
    assert order_of(choice, CPU) == ()
    put_in_order(choice, CPU)
    assert _cur_sdpa_kernel_backends(with_priority=True) == torch_order


@pytest.mark.parametrize(
    ("gpu", "order"), [((9, 0), CUDNN_FIRST), ((10, 0), CUDNN_FIRST), ((8, 0), ()), ((8, 9), ()), ((12, 0), ())]
)
def test_cudnn_comes_first_where_it_has_kernels_of_its_own(capability, gpu, order):
    capability(*gpu)
    assert order_of("auto", GPU) == order
    assert order_of("torch", GPU) == ()
    assert order_of("cudnn", GPU) == CUDNN_FIRST
    assert order_of("flash", GPU) == FLASH_FIRST


def test_every_kernel_stays_allowed():
    """What the first one cannot do, another must."""
    for order in (CUDNN_FIRST, FLASH_FIRST):
        fused = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
        assert sorted(order, key=int) == sorted((*fused, SDPBackend.MATH), key=int)


def test_an_order_is_in_force_until_the_next_and_torchs_comes_back(capability, torch_order):
    capability(9, 0)
    put_in_order("auto", GPU)
    assert tuple(_cur_sdpa_kernel_backends(with_priority=True)[:4]) == CUDNN_FIRST
    put_in_order("flash", GPU)
    assert tuple(_cur_sdpa_kernel_backends(with_priority=True)[:4]) == FLASH_FIRST
    put_in_order("torch", GPU)
    assert _cur_sdpa_kernel_backends(with_priority=True) == torch_order
