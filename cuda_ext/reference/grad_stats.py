"""grad_stats in plain torch: its specification. The device is never waited for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..checks import check_tensor, check_tensors

OP = "grad_stats"


@torch.no_grad()
def grad_stats(grads: Sequence[torch.Tensor], inv_scale: torch.Tensor) -> torch.Tensor:
    check_tensor(inv_scale, OP, "inv_scale", dtypes=(torch.float32,), elements=1)
    check_tensors(grads, OP, "grads", device=inv_scale.device)
    rows = [_stats(grad.float() * inv_scale) for grad in grads]
    return torch.stack(rows) if rows else inv_scale.new_empty((0, 3), dtype=torch.float64)


def _stats(values: torch.Tensor) -> torch.Tensor:
    """Of float32 values: [sum of squares, largest magnitude, how many are not finite]."""
    if not values.numel():
        return values.new_zeros(3, dtype=torch.float64)
    return torch.stack([values.double().square().sum(), values.abs().amax().double(), (~values.isfinite()).sum().double()])
