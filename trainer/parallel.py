"""The ranks: joining them, and the model over them. One process per GPU with NCCL, or gloo on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from .compiling import check_compiler, compile_blocks
from .config import Config
from .exits import ConfigError
from .mesh import mesh_of
from .model.gpt import GPT
from .model.initial import fill_initial
from .recompute import recompute_blocks

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class World:
    """This rank among all. `control` and `storage` are gloo groups of their own: nothing there meets training's collectives.

    `mesh` has one dimension, "shard", or two, "replicate" and "shard", where the model is there `replicas` times: ranks
    0 to size/replicas - 1 hold the first copy between them, the next as many the second, and so on.
    """

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh
    control: dist.ProcessGroup
    storage: dist.ProcessGroup
    replicas: int = 1


def join_world(replicas: int = 1) -> World:
    """Join the process group torchrun prepared, or make a world of one. Raises ConfigError where ranks outnumber GPUs, or do not
    divide into the replicas."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda and local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"local rank {local_rank}: this host has {torch.cuda.device_count()} GPUs and each process needs one; "
            "lower --nproc-per-node, or hide the GPUs with CUDA_VISIBLE_DEVICES="
        )
    shape, names = mesh_of(size, replicas)
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    return World(rank, size, device, mesh, dist.new_group(backend="gloo"), dist.new_group(backend="gloo"), replicas)


def shard(model: GPT, world: World, config: Config, *, initial: bool = True) -> GPT:
    """A model of the meta device over the ranks by FSDP2, each block a unit, with its initial weights. Every rank calls it.

    Parameters stay float32; numerics.precision is that of the arithmetic, gradients are reduced in float32. Blocks are
    compiled and recomputed inside their FSDP hooks, so parameter names are those of the plain model whatever is chosen.
    The root (embeddings, last norm, head) stays gathered between forward and backward: it is needed again at once.

    `initial` False leaves NaN instead of initial weights, for a checkpoint that will fill every one: drawing a billion of them
    takes seconds, and one that was forgotten shows. Raises ConfigError where blocks cannot be compiled.
    """
    precision = config.numerics.precision
    policy = MixedPrecisionPolicy()
    if precision in DTYPES:
        # Inputs are not cast: tokens are integers, the embedding gives the right type, rotary angles must stay float32.
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision], reduce_dtype=torch.float32, cast_forward_inputs=False)
    recompute_blocks(model, config)
    if config.parallel.compile:
        check_compiler(world.device)
        compile_blocks(model)
    for block in model.blocks:
        fully_shard(block, mesh=world.mesh, mp_policy=policy, reshard_after_forward=config.parallel.reshard)
    fully_shard(model, mesh=world.mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device=world.device)
    if initial:
        fill_initial(model, config)
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.to_local().fill_(float("nan"))
    return model
