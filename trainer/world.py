"""The ranks: one process per GPU with NCCL, or gloo on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .exits import ConfigError
from .mesh import mesh_of


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
    return World(
        rank=rank,
        size=size,
        device=device,
        mesh=mesh,
        control=dist.new_group(backend="gloo"),
        storage=dist.new_group(backend="gloo"),
        replicas=replicas,
    )
