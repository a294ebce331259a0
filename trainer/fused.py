"""Whether our own kernels run, and which. Model, loss and optimizer call them from here; nothing else imports `cuda_ext`.

A kernel returns statistics of the numbers that pass through it, so nothing is read twice to be measured. Without kernels for the
training device everything runs on plain PyTorch, which is also the reference: both give the same losses within rounding
(tests/unit/trainer/test_same_curve.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from .exits import PROGRAM, ConfigError

if TYPE_CHECKING or PROGRAM != "sentinel_trainer":
    from cuda_ext import tiers
    from cuda_ext.ops.adamw_step import adamw_step
    from cuda_ext.ops.add_norm import add_norm
    from cuda_ext.ops.grad_stats import grad_stats
    from cuda_ext.ops.softmax_xent import scale_op as scale_
    from cuda_ext.ops.softmax_xent import softmax_xent
else:  # installed from a wheel: setup.py gives both packages their names
    from sentinel_kernels import tiers
    from sentinel_kernels.ops.adamw_step import adamw_step
    from sentinel_kernels.ops.add_norm import add_norm
    from sentinel_kernels.ops.grad_stats import grad_stats
    from sentinel_kernels.ops.softmax_xent import scale_op as scale_
    from sentinel_kernels.ops.softmax_xent import softmax_xent

if TYPE_CHECKING:
    from .world import World

__all__ = ["TORCH", "Kernels", "adamw_step", "choose", "foreseen", "grad_stats", "norm_of_sum", "scale_", "softmax_xent"]
TORCH = "torch"


@dataclass(frozen=True)
class Kernels:
    """`name`: cuda, cpu, or torch (plain PyTorch). `why`: the reason, for the receipt."""

    name: str
    why: str

    @property
    def fused(self) -> bool:
        return self.name != TORCH


class Normed(NamedTuple):
    """`statistics`: float64 [sum of squares, largest magnitude, how many are not finite] of `stream`."""

    normed: torch.Tensor
    stream: torch.Tensor
    statistics: torch.Tensor


def choose(requested: str | None, world: World) -> Kernels:
    """The kernels of this run: those asked for (numerics.kernels), else the best there are on every rank. A collective, so that
    all make the same choice: ranks that report different statistics would end the run. Raises ConfigError, on every rank,
    where those asked for cannot run on one."""
    found: list[Kernels | ConfigError | None] = [None] * world.size
    try:
        own: Kernels | ConfigError = _of_rank(requested, world.device)
    except ConfigError as error:
        own = error
    dist.all_gather_object(found, own, group=world.control)
    for rank, other in enumerate(found):
        if isinstance(other, ConfigError):
            raise ConfigError(f"{other} (rank {rank})" if world.size > 1 else str(other))
        if isinstance(other, Kernels) and other.name == TORCH and isinstance(own, Kernels) and own.fused:
            return Kernels(TORCH, f"rank {rank} has no other: {other.why}")
    assert isinstance(own, Kernels)
    return own


def foreseen(requested: str | None) -> Kernels:
    """What a run of one rank would choose on this machine; nothing is compiled for the answer. Raises ConfigError as `choose`."""
    return _of_rank(requested, torch.device("cuda" if torch.cuda.is_available() else "cpu"), may_build=False)


def _of_rank(requested: str | None, device: torch.device, *, may_build: bool = True) -> Kernels:
    """Kernels named in the settings or the environment are used or refused. Unnamed, they fall back to torch on any failure."""
    try:
        wanted = tiers.requested(requested)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    words = f"--kernels {wanted}" if requested is not None else f"{tiers.ENVIRONMENT}={wanted}"
    if wanted == TORCH:
        return Kernels(TORCH, f"asked for by {words}")
    if wanted is not None and wanted != device.type:
        remedy = "hide the GPUs with CUDA_VISIBLE_DEVICES=, or" if device.type == "cuda" else "there is no GPU here;"
        raise ConfigError(f"{words}: training is on {device.type}; {remedy} use --kernels {device.type} or torch")
    try:
        tier = tiers.load(wanted, may_build=may_build)
    except (OSError, RuntimeError) as error:
        if wanted is None:
            return Kernels(TORCH, f"others cannot be loaded: {error}")
        raise ConfigError(f"{words}: {error}; use --kernels torch, or leave it out") from error
    if wanted is not None and tier.name != wanted:
        raise ConfigError(f"{words}: {tier.why}; use --kernels torch, or leave it out")
    if tier.name not in (device.type, TORCH):
        return Kernels(TORCH, f"training is on {device.type}, and there are kernels for {tier.name} alone ({tier.why})")
    return Kernels(tier.name, tier.why)


def norm_of_sum(norm: nn.Module, stream: torch.Tensor, branch: torch.Tensor | None) -> Normed:
    """`norm` (nn.LayerNorm or nn.RMSNorm, over the last dimension) of stream + branch, that sum, and its statistics. One
    pass; `branch` None: of the stream as it is."""
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    normed, whole, statistics = add_norm(stream, branch, norm.weight, bias, eps=norm.eps, rms=isinstance(norm, nn.RMSNorm))
    return Normed(normed, whole, statistics.detach())
