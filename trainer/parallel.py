"""The ranks: joining them, sharding the model over them. One process per GPU with NCCL, or gloo on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from trainer.exits import ConfigError
from trainer.model import GPT

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class World:
    """This rank among all. `control` and `storage` are gloo groups of their own: nothing there meets training's collectives."""

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh
    control: dist.ProcessGroup
    storage: dist.ProcessGroup


def join_world() -> World:
    """Join the process group torchrun prepared, or make a world of one. Raises ConfigError where ranks outnumber GPUs."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda and local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"local rank {local_rank}: this host has {torch.cuda.device_count()} GPUs and each process needs one; "
            "lower --nproc-per-node, or hide the GPUs with CUDA_VISIBLE_DEVICES="
        )
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(device.type, (size,))
    return World(rank, size, device, mesh, dist.new_group(backend="gloo"), dist.new_group(backend="gloo"))


def shard(model: GPT, world: World, precision: str) -> nn.Module:
    """The model on its device under FSDP2, each block a unit. Parameters stay fp32; `precision` is that of the arithmetic.

    Blocks are not resharded after forward: at these sizes a second all-gather costs more than the memory it saves.
    """
    policy = MixedPrecisionPolicy()
    if precision in DTYPES:
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision], reduce_dtype=torch.float32)
    model.to(world.device)
    for block in model.blocks:
        fully_shard(block, mesh=world.mesh, mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mesh=world.mesh, mp_policy=policy, reshard_after_forward=False)
    return model
