"""Initial weights: a function of the seed and the parameter's name, never of the ranks.

Each parameter has a random stream of its own, so that a rank draws whole parameters one at a time and keeps its shard, and the
weights of two models that differ in one option differ only there. Rows added to pad the vocabulary come after all others.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from ..config import Config

RESIDUAL_OUTPUTS = ("attention.out.weight", "mlp.down.weight")


def std_of(config: Config, name: str) -> float:
    """Standard deviation of a matrix's initial weights, by the parameter's name. Sources: trainer.config.sections.Init."""
    width = config.model.width
    named = {"small": (2 / (5 * width)) ** 0.5, "wang": (1 / (3 * width)) ** 0.5}
    std = config.init.std
    plain = named[std] if isinstance(std, str) else std
    scaled = config.init.scale_outputs and name.endswith(RESIDUAL_OUTPUTS)
    return plain / (2 * config.model.layers) ** 0.5 if scaled else plain


def initial_weights(config: Config, name: str, shape: torch.Size) -> torch.Tensor:
    """One whole parameter on the CPU, float32: normal for matrices, 1 for norms, 0 for biases."""
    if len(shape) < 2:
        return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
    key = hashlib.sha256(f"{config.init.seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:7]))
    return torch.empty(shape).normal_(0.0, std_of(config, name), generator=generator)


@torch.no_grad()
def fill_initial(model: nn.Module, config: Config) -> None:
    """Give every parameter of a model that has memory its initial weights: sharded ones this rank's part. No
    communication."""
    for name, parameter in model.named_parameters():
        whole = initial_weights(config, name, parameter.shape)
        if isinstance(parameter, DTensor):
            part = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.to_local().copy_(part.to_local())
        else:
            parameter.copy_(whole)
