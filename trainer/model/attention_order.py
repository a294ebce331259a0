"""Which of torch's fused attention kernels is tried first, on a GPU (numerics.attention). On a CPU there is one, and nothing to
choose.

torch tries its kernels in an order and takes the first that can do the call. Whether cuDNN's comes first on Hopper depends on its
release: not in 2.9, yes in 2.13 with cuDNN 9.15 (check_prefer_cudnn_attention in its sdp_utils.cpp). So a run would change its
kernel, and its last bits, with an upgrade; here the setting says it. cuDNN's is the one to want there: 631 TFLOP/s beside 329 of
torch's FlashAttention 2 on an H100, forward, head size 128 (pytorch issue 142132). `make gpu` measures both at the trainer's
shapes; numerics.attention=flash is the way back. With numerics.deterministic torch itself passes cuDNN's over, whose gradient may
differ in its last bits each time.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

REST = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
CUDNN_FIRST = (SDPBackend.CUDNN_ATTENTION, *REST)
FLASH_FIRST = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
CUDNN_CAPABILITIES = ((9, 0), (10, 0))  # Hopper's and Blackwell's data-centre GPUs, for which cuDNN has kernels of their own

_in_force = ExitStack()


def order_of(choice: str, device: torch.device) -> tuple[SDPBackend, ...]:
    """The kernels in the order in which they are tried; () for torch's own order."""
    if device.type != "cuda" or choice == "torch":
        return ()
    if choice == "auto":
        return CUDNN_FIRST if torch.cuda.get_device_capability(device) in CUDNN_CAPABILITIES else ()
    return CUDNN_FIRST if choice == "cudnn" else FLASH_FIRST


def put_in_order(choice: str, device: torch.device) -> None:
    """For this process, until the next call. The order is global in torch: blocks are computed again in threads of backward."""
    _in_force.close()
    order = order_of(choice, device)
    if order:
        _in_force.enter_context(sdpa_kernel(list(order), set_priority=True))
