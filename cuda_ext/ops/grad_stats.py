"""grad_stats: statistics of every gradient, in one pass over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..reference.grad_stats import grad_stats as _reference
from ..registry import declare

__all__ = ["grad_stats"]


def _fake(grads: Sequence[torch.Tensor], inv_scale: torch.Tensor) -> torch.Tensor:
    return inv_scale.new_empty((len(grads), 3), dtype=torch.float64)


_op = declare("grad_stats(Tensor[] grads, Tensor inv_scale) -> Tensor", _reference, _fake)


@torch.no_grad()
def grad_stats(grads: Sequence[torch.Tensor], inv_scale: torch.Tensor) -> torch.Tensor:
    """Of each gradient times `inv_scale`: sum of squares, largest magnitude, how many elements are not finite. Float64 (T, 3).

    grads: contiguous tensors of float32, bfloat16 or float16, mixed, any number of any size (empty: zeros), all on the device of
    inv_scale: float32 scalar, 1 over the loss scale. The product is rounded to float32. Only this process's shards are measured.

    A sum of squares is finite exactly where every element is: one that leaves float32's range is added up again in float64. NaN
    and infinity show in the first two numbers. The same inputs give the same bits, whatever the number of threads and
    wherever in memory they lie. The host does not wait. Nothing is differentiable.

    Raises ValueError, or RuntimeError under some versions of torch, for a tensor of another dtype, layout or device, and
    names it.
    """
    stats: torch.Tensor = _op(list(grads), inv_scale)
    return stats
