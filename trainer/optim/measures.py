"""Sums over every gradient, parameter and moment of all ranks, for the price of a few passes and one small collective a step.

Sums of squares are of float64: the square of a large float32 overflows while every element is finite. Nothing is added up by
atomics and the ranks' parts are added in the order of the ranks: a step gives the same bits every time, and on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ..loss import ForwardStatistics

ALIGNED = 32  # elements: fused kernels read four at a time, and only from addresses that are a multiple of 16 bytes
ROW = 4096  # elements summed in float32
# Elements of a gradient measured in one pass: float32 counts exactly up to here, and no temporary copy is larger.
PIECE = 1 << 24


@dataclass(frozen=True)
class Totals:
    """Over all ranks; float64 on the device, scalars unless noted. Gradients are still times the loss scale."""

    loss: torch.Tensor
    activation_squares: torch.Tensor  # (layers or 1,) means
    activation_max: torch.Tensor  # (layers or 1,)
    logit_max: torch.Tensor
    grad_squares: torch.Tensor  # (groups,) sums
    nonfinite: torch.Tensor  # gradient elements
    param_squares: torch.Tensor
    rank_param_squares: torch.Tensor  # (ranks,): whose shard a flipped bit is in shows there
    update_squares: torch.Tensor  # of the update before; this and the next two are 0 where updates are not measured
    second_squares: torch.Tensor
    second_max: torch.Tensor
    not_finite: torch.Tensor  # (2,) elements of the residual streams, and of the logits; (0,) where they are not counted


@dataclass(frozen=True)
class LocalState:
    """float64 scalars of this rank's shards, before the update."""

    param_squares: torch.Tensor
    update_squares: torch.Tensor
    second_squares: torch.Tensor
    second_max: torch.Tensor


def flat_views(shapes: Sequence[torch.Size], like: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One buffer of zeros, whole rows of ROW, and a view of it in each shape; the gaps between them stay zero and count for
    nothing."""
    sizes = [shape.numel() for shape in shapes]
    rooms = [-(-size // ALIGNED) * ALIGNED for size in sizes]
    length = max(1, -(-sum(rooms) // ROW)) * ROW
    flat = torch.zeros(length, dtype=like.dtype, device=like.device)
    starts = [sum(rooms[:number]) for number in range(len(rooms))]
    return flat, [flat[start : start + size].view(shape) for start, size, shape in zip(starts, sizes, shapes, strict=True)]


def squares_of(tensors: list[torch.Tensor], device: torch.device) -> torch.Tensor:
    """The sum of squares of all elements, float64; finite exactly where every element is."""
    if not tensors:
        return torch.zeros((), dtype=torch.float64, device=device)
    return torch.stack(torch._foreach_norm(tensors, 2, torch.float64)).square().sum()


def squares_by_rows(flat: torch.Tensor) -> torch.Tensor:
    """The sum of squares of a buffer of `flat_views`, float64, in a third of the time: rows in float32, their sum in float64. Off
    by parts in 10**7, and infinite already where a row's norm is above 10**19: for statistics, not for decisions."""
    return torch.linalg.vector_norm(flat.view(-1, ROW), dim=1).double().square().sum()


def pieces_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same elements in as few flat views as possible: FSDP2 lays the gradients of a unit side by side in one buffer, and a
    pass over a large piece costs less than one over each of its parts. None longer than PIECE."""
    runs: list[list[torch.Tensor]] = []
    end = None
    for tensor in tensors:
        storage, start = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        if end == (storage, start) and tensor.is_contiguous():
            runs[-1].append(tensor)
        else:
            runs.append([tensor])
        end = (storage, start + tensor.numel()) if tensor.is_contiguous() else None
    pieces: list[torch.Tensor] = []
    for run in runs:
        first, size = run[0], sum(tensor.numel() for tensor in run)
        flat = first.as_strided((size,), (1,)) if len(run) > 1 or first.is_contiguous() else first.reshape(-1)
        pieces += flat.split(PIECE)
    return pieces


def measure_gradients(groups: list[list[torch.Tensor]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of squares of each group (groups,), and how many elements of all of them are not finite; float64."""
    pieces = [pieces_of(group) for group in groups]
    flat = [piece for group in pieces for piece in group]
    if not flat:
        return torch.zeros(len(groups), dtype=torch.float64, device=device), torch.zeros((), dtype=torch.float64, device=device)
    squares = torch.stack(torch._foreach_norm(flat, 2, torch.float64)).square()
    parts = squares.split([len(group) for group in pieces])
    # x − x is 0 for a finite x and NaN for any other, and NaN is not 0: three plain passes, and no mask of two more.
    counts = torch.stack([(piece - piece).ne_(0).sum() for piece in flat]).sum(dtype=torch.float64)
    return torch.stack([part.sum() for part in parts]), counts


def rows_of_all(own: torch.Tensor) -> torch.Tensor:
    """This rank's vector (n,) → those of all ranks (ranks, n), in their order. A collective on training's own group."""
    ranks = dist.get_world_size()
    gathered = own.new_empty(ranks * len(own))  # gloo takes no other shape
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in torch 2.13
    gather(gathered, own)
    return gathered.view(ranks, len(own))


def gather_totals(
    forward: ForwardStatistics, grad_squares: torch.Tensor, nonfinite: torch.Tensor, own: LocalState, replicas: int
) -> Totals:
    """The one collective of a step: every rank's numbers to every rank, added up alike on each.

    With `replicas` (HSDP: rank = replica · shards + shard) each copy of the model holds the same shards, so each copy's sum is a
    whole one. They are equal unless one copy is faulty; the maximum is taken, and NaN counts as larger than anything.
    """
    squares, largest = forward.layers.double().unbind(1)
    counts = squares[:0] if forward.nonfinite is None else forward.nonfinite
    scalars = [
        forward.loss,
        nonfinite,
        own.param_squares,
        own.update_squares,
        own.second_squares,
        forward.logit_max,
        own.second_max,
    ]
    loss, *sums, logit_max, second_max = (scalar.double().reshape(1) for scalar in scalars)
    blocks = [loss, squares, grad_squares, *sums, largest, logit_max, second_max, counts]
    sizes = [1 + len(squares), len(grad_squares) + len(sums), len(largest) + 2, len(counts)]
    packed = torch.cat(blocks)
    rows = rows_of_all(packed)
    ranks = len(rows)
    means, sums_of_all, maxima, counts = rows.split(sizes, dim=1)
    means = means.sum(dim=0) / ranks
    totals = sums_of_all.unflatten(0, (replicas, ranks // replicas)).sum(dim=1).amax(dim=0)
    maxima = maxima.amax(dim=0)
    groups = len(grad_squares)
    return Totals(
        loss=means[0],
        activation_squares=means[1:],
        activation_max=maxima[:-2],
        logit_max=maxima[-2],
        grad_squares=totals[:groups],
        nonfinite=totals[groups],
        param_squares=totals[groups + 1],
        rank_param_squares=sums_of_all[:, groups + 1],
        update_squares=totals[groups + 2],
        second_squares=totals[groups + 3],
        second_max=maxima[-1],
        not_finite=counts.sum(dim=0),
    )
