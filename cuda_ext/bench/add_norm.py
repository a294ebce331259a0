"""add_norm beside torch, torch.compile and Liger-Kernel: forward and backward, LayerNorm with and RMSNorm without a bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ..reference import add_norm as reference
from .harness import Case, Way, compiled, installed

EPS = 1e-5
MOVED_BYTES = {"cuda": 1 << 30, "cpu": 1 << 27}
WIDTHS = {"cuda": (768, 1600, 4096, 8192, 1024, 2048, 16384), "cpu": (256, 768, 4096)}
FEW = (768, 1600, 4096, 8192)  # GPT-2 small and XL, Llama 8B and 70B
FORWARD_GOAL, BACKWARD_GOAL = 0.9, 0.75


def cases(device: torch.device, few: bool = False) -> Iterator[Case]:
    widths = [width for width in WIDTHS[device.type] if not few or width in FEW]
    for rms in (False, True):
        for dtype in (torch.bfloat16,) if few else (torch.bfloat16, torch.float32):
            for width in widths:
                for case_of in (forward, backward):
                    torch.compiler.reset()  # of one function it compiles eight shapes, and further ones run as they are
                    yield case_of(device, dtype, width, rms)


def forward(device: torch.device, dtype: torch.dtype, width: int, rms: bool) -> Case:
    x, residual, weight, bias = drawn(device, dtype, width, rms)

    def plain() -> tuple[Tensor, Tensor]:
        h = x + residual
        return torch_norm(h, weight, bias, rms), h

    def with_statistics() -> tuple[Tensor, ...]:
        """The same, and three statistics as a monitor takes them."""
        y, h = plain()
        return y, h, torch.linalg.vector_norm(h, dtype=torch.float32), h.abs().amax(), torch.isfinite(h).logical_not().sum()

    peers: dict[str, Way] = {"torch": plain, "torch with statistics": with_statistics, "torch.compile": compiled(plain)}
    peers["torch.compile with statistics"] = compiled(with_statistics)
    if rms and device.type == "cuda" and installed("liger_kernel"):
        peers["Liger"] = lambda: liger()(x, residual, weight, EPS)
    return Case(
        op=f"add_norm forward, {name_of(rms)}",
        shape=f"{len(x)} x {width}",
        dtype=str(dtype).removeprefix("torch."),
        moved_bytes=4 * x.nbytes,
        ours=lambda ops: ops.add_norm(x, residual, weight, bias, EPS, rms),
        peers=peers,
        goal=FORWARD_GOAL,
    )


def backward(device: torch.device, dtype: torch.dtype, width: int, rms: bool) -> Case:
    h, dy, weight, bias = drawn(device, dtype, width, rms)
    dh = torch.randn_like(h)
    _, _, mean, rstd, _ = torch.ops.sentinel.add_norm(h, None, weight, bias, EPS, rms)
    arguments = (dy, dh, h, weight, mean, rstd, rms, bias is not None)

    @cache
    def graph() -> tuple[Tensor, list[Tensor]]:
        leaves = [one.detach().requires_grad_() for one in (h, weight, bias) if one is not None]
        return torch_norm(leaves[0], leaves[1], leaves[2] if bias is not None else None, rms), leaves

    def plain() -> Tensor:
        y, leaves = graph()
        return torch.autograd.grad(y, leaves, dy, retain_graph=True)[0] + dh

    peers: dict[str, Way] = {"torch": plain, "torch.compile": compiled(reference.add_norm_backward, *arguments)}
    if rms and device.type == "cuda" and installed("liger_kernel"):
        peers["Liger"] = liger_backward(h, weight, dy, dh)
    return Case(
        op=f"add_norm backward, {name_of(rms)}",
        shape=f"{len(h)} x {width}",
        dtype=str(dtype).removeprefix("torch."),
        moved_bytes=4 * h.nbytes,
        ours=lambda ops: ops.add_norm_backward(*arguments),
        peers=peers,
        goal=BACKWARD_GOAL,
        is_bare_too=False,
    )


def drawn(device: torch.device, dtype: torch.dtype, width: int, rms: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Two arrays of rows, and weight and bias of their dtype, as mixed precision hands them over."""
    rows = max(1, MOVED_BYTES[device.type] // (4 * width * dtype.itemsize))
    x, other = (torch.randn(rows, width, device=device, dtype=dtype) for _ in range(2))
    weight = torch.randn(width, device=device, dtype=dtype)
    return x, other, weight, None if rms else torch.randn_like(weight)


def torch_norm(h: Tensor, weight: Tensor, bias: Tensor | None, rms: bool) -> Tensor:
    return F.rms_norm(h, h.shape[-1:], weight, EPS) if rms else F.layer_norm(h, h.shape[-1:], weight, bias, EPS)


def name_of(rms: bool) -> str:
    return "RMSNorm" if rms else "LayerNorm"


@cache
def liger() -> Callable[..., tuple[Tensor, Tensor]]:
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction  # type: ignore[import-not-found]

    def apply(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        return LigerFusedAddRMSNormFunction.apply(x, residual, weight, eps, 0.0, "llama", False)

    return apply


def liger_backward(h: Tensor, weight: Tensor, dy: Tensor, dh: Tensor) -> Way:
    @cache
    def graph() -> tuple[tuple[Tensor, Tensor], list[Tensor]]:
        leaves = [one.detach().requires_grad_() for one in (h, torch.zeros_like(h), weight)]
        return liger()(*leaves, EPS), leaves

    def plain() -> tuple[Tensor, ...]:
        results, leaves = graph()
        return torch.autograd.grad(results, leaves, (dy, dh), retain_graph=True)

    return plain
