"""What a manifest says of the saved state: norms of parameters and moments, and how many elements are not finite.

Of a tensor that is sharded over the ranks each rank measures its part; what is there on all ranks is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

MOMENTS = {"adam_m_norm": "exp_avg", "adam_v_norm": "exp_avg_sq"}
Sums = list[float]


def measure(model: Any, optimizers: Iterable[Any], add_up: Callable[[Sums], Sums], rank: int = 0) -> dict[str, float]:
    """The judged numbers of PROTOCOL.md 'Checkpoints'. `add_up`: sums over the ranks, each of which calls this. A moment that no
    optimizer has is left out."""
    states = [state for optimizer in optimizers for state in optimizer.state.values() if isinstance(state, Mapping)]
    kinds: dict[str, list[Any]] = {"param_norm": list(model.parameters())}
    for name, key in MOMENTS.items():
        kinds[name] = [state[key] for state in states if isinstance(state.get(key), torch.Tensor)]
    sums: Sums = []
    for tensors in kinds.values():
        sums += _measure(tensors, rank)
    sums = add_up(sums)
    found: dict[str, float] = {}
    for place, name in enumerate(kinds):
        squares, _, present, unknown = sums[4 * place : 4 * place + 4]
        if present and not unknown:
            found[name] = math.sqrt(squares) if squares >= 0 else math.nan
    return found if any(sums[3::4]) else found | {"nonfinite": sum(sums[1::4])}


def _measure(tensors: Iterable[Any], rank: int) -> Sums:
    """Sum of squares, elements that are not finite, tensors, and tensors that cannot be measured, as far as this rank answers for
    them."""
    parts = [local.detach() for tensor in tensors for local in _own(tensor, rank)]
    try:
        norms = [torch.linalg.vector_norm(part, dtype=torch.float64).to(parts[0].device) for part in parts]
        values = torch.stack(norms).square().tolist() if norms else []
        bad = [int((~torch.isfinite(part)).sum()) for part, value in zip(parts, values, strict=True) if not math.isfinite(value)]
    except (RuntimeError, TypeError, NotImplementedError):  # a kind of tensor that has no such number
        return [0.0, 0.0, 0.0, 1.0]
    squares = math.fsum(values) if all(map(math.isfinite, values)) else math.nan
    return [squares, float(sum(bad)), float(len(parts)), 0.0]


def _own(tensor: Any, rank: int) -> Iterator[Any]:
    """The local part of a sharded tensor on every rank of its first copy; a whole tensor on rank 0."""
    if not hasattr(tensor, "to_local"):
        if rank == 0 and tensor.numel():
            yield tensor
        return
    mesh, place = tensor.device_mesh, tensor.device_mesh.get_coordinate()
    first = all(place[axis] == 0 for axis, kind in enumerate(tensor.placements) if kind.is_replicate()) if place else False
    local = tensor.to_local()
    if first and mesh.size() and local.numel():
        yield local
