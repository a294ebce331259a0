"""add_norm in plain torch: LayerNorm or RMSNorm of x + residual, what that sum's elements are, and the gradient, step by step."""

from __future__ import annotations

import torch
from torch import Tensor


def add_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, rms: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(y, h, mean, rstd, stats), in float32 from h as it is stored. Empty: h without a residual, mean for RMSNorm."""
    h = x if residual is None else x + residual
    rows = h.reshape(-1, h.shape[-1]).float()
    mean = rows.new_empty(0) if rms else rows.mean(1)
    centred = rows if rms else rows - mean.unsqueeze(1)
    rstd = torch.rsqrt(centred.square().mean(1) + eps)
    y = centred * rstd.unsqueeze(1) * weight.float()
    if bias is not None:
        y = y + bias.float()
    stats = _stats(h)
    return y.to(x.dtype).view_as(x), x.new_empty(0) if residual is None else h, mean, rstd, stats


def add_norm_backward(
    dy: Tensor, dh: Tensor | None, h: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, rms: bool, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dweight, dbias): dx is the gradient of x and of residual alike; dbias is empty without a bias."""
    rows, upstream = h.reshape(-1, h.shape[-1]).float(), dy.reshape(-1, h.shape[-1]).float()
    normed = (rows if rms else rows - mean.unsqueeze(1)) * rstd.unsqueeze(1)
    g = upstream * weight.float()
    through = g - normed * (g * normed).mean(1, keepdim=True)
    if not rms:
        through = through - g.mean(1, keepdim=True)
    dx = through * rstd.unsqueeze(1)
    if dh is not None:
        dx = dx + dh.reshape(rows.shape).float()
    dweight = (upstream * normed).sum(0).to(weight.dtype)
    dbias = upstream.sum(0).to(weight.dtype) if has_bias else weight.new_empty(0)
    return dx.to(h.dtype).view_as(h), dweight, dbias


def _stats(tensor: Tensor) -> Tensor:
    """[sum of squares, largest magnitude, how many are not finite] in float64."""
    if tensor.numel() == 0:
        return torch.zeros(3, dtype=torch.float64, device=tensor.device)
    squares = torch.linalg.vector_norm(tensor, dtype=torch.float64).square()
    return torch.stack([squares, tensor.abs().amax().double(), (~torch.isfinite(tensor)).sum().double()])
