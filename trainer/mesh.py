"""The shape of the ranks. Imports no torch, so that --check refuses what training would."""

from __future__ import annotations

from .exits import ConfigError


def mesh_of(size: int, replicas: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Extent and name of each dimension of the mesh. Raises ConfigError where the ranks do not divide into the replicas."""
    if size % replicas:
        fitting = ", ".join(str(count) for count in range(1, size + 1) if size % count == 0)
        raise ConfigError(
            f"parallel.replicas {replicas}: {size} ranks do not divide into so many copies of the model; "
            f"use one of {fitting}, or start a multiple of {replicas} ranks"
        )
    return ((size,), ("shard",)) if replicas == 1 else ((replicas, size // replicas), ("replicate", "shard"))
