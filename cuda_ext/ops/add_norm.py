"""add_norm: the residual add and the norm after it in one pass over the rows, with statistics of the residual stream.

Formulas: Ba et al. 2016 (LayerNorm), Zhang and Sennrich 2019 (RMSNorm). The gradient, with n = (h - mean) rstd and
g = dy weight: dx = rstd (g - average(g) - n average(g n)), for RMSNorm without average(g).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_tensor
from ..reference import add_norm as reference
from ..registry import declare


def add_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None = None, *, eps: float = 1e-5, rms: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, h, stats): h = x + residual (x itself without one) and y = LayerNorm(h) or RMSNorm(h), both in x's dtype.

    x and residual (..., C), float32, bfloat16 or float16, contiguous; weight and bias (C,), both float32 or both of x's dtype.
    The norm is computed in float32 from h as it is stored. stats is float64 (3,) on its device, without a gradient: the sum of
    the squares of h, its largest magnitude, how many elements are not finite (NaN and infinity come through in the first two).
    Squares are summed in float32 within a row, in float64 over rows: elements beyond 1e19 make the sum infinite, not the count.

    Raises ValueError that names the argument; RuntimeError where its gradient is differentiated again.
    """
    _check(x, residual, weight, bias, eps)
    y, h, _, _, stats = _forward(x, residual, weight, bias, eps, rms)
    return y, x if residual is None else h, stats


def _check(x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float) -> None:
    op = "add_norm"
    check_tensor(x, op, "x")
    check(x.dim() >= 1 and x.shape[-1] >= 1, op, "x", f"shape {list(x.shape)}, must have a last dimension of at least 1")
    if residual is not None:
        check_tensor(residual, op, "residual", dtypes=(x.dtype,), shape=x.shape, device=x.device)
    own = (torch.float32,) if x.dtype == torch.float32 else (torch.float32, x.dtype)
    check_tensor(weight, op, "weight", dtypes=own, shape=x.shape[-1:], device=x.device)
    if bias is not None:
        check_tensor(bias, op, "bias", dtypes=(weight.dtype,), shape=x.shape[-1:], device=x.device)
    if not eps >= 0.0:  # where torch.compile leaves it open, a sentence with it in it cannot be traced
        check(False, op, "eps", f"{eps}, must not be negative")


def _fake_forward(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, rms: bool  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows = x.numel() // x.shape[-1]
    h = x.new_empty(0) if residual is None else x.new_empty(x.shape)
    rstd = x.new_empty(rows, dtype=torch.float32)
    mean = x.new_empty(0 if rms else rows, dtype=torch.float32)
    return x.new_empty(x.shape), h, mean, rstd, x.new_empty(3, dtype=torch.float64)


def _fake_backward(
    dy: Tensor,  # noqa: ARG001
    dh: Tensor | None,  # noqa: ARG001
    h: Tensor,
    weight: Tensor,
    mean: Tensor,  # noqa: ARG001
    rstd: Tensor,  # noqa: ARG001
    rms: bool,  # noqa: ARG001
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return h.new_empty(h.shape), weight.new_empty(weight.shape), weight.new_empty(weight.numel() if has_bias else 0)


_forward = declare(
    "add_norm(Tensor x, Tensor? residual, Tensor weight, Tensor? bias, float eps, bool rms)"
    " -> (Tensor y, Tensor h, Tensor mean, Tensor rstd, Tensor stats)",
    reference.add_norm,
    _fake_forward,
)
_backward = declare(
    "add_norm_backward(Tensor dy, Tensor? dh, Tensor h, Tensor weight, Tensor mean, Tensor rstd, bool rms, bool has_bias)"
    " -> (Tensor dx, Tensor dweight, Tensor dbias)",
    reference.add_norm_backward,
    _fake_backward,
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, residual, weight, bias, _, ctx.rms = inputs
    _, h, mean, rstd, stats = output
    ctx.has_residual, ctx.has_bias = residual is not None, bias is not None
    ctx.save_for_backward(h if ctx.has_residual else x, weight, mean, rstd)
    ctx.mark_non_differentiable(mean, rstd, stats)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, dy: Tensor | None, dh: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """Gradients of (x, residual, weight, bias, eps, rms). Who used only h sends no dy, who used only y no dh."""
    h, weight, mean, rstd = ctx.saved_tensors
    if not ctx.has_residual:
        dh = None
    if dy is None:
        return dh, dh if ctx.has_residual else None, None, None, None, None
    dx, dweight, dbias = _backward(
        dy.contiguous(), None if dh is None else dh.contiguous(), h, weight, mean, rstd, ctx.rms, ctx.has_bias
    )
    return dx, dx if ctx.has_residual else None, dweight, dbias if ctx.has_bias else None, None, None


def _refuse(_ctx: Any, *_: Tensor | None) -> None:
    """Unasked, torch would take the gradient's own gradient for zero, and warn."""
    raise RuntimeError("add_norm: it has no second derivative; differentiate torch's own layer_norm or rms_norm twice")


torch.library.register_autograd("sentinel::add_norm", _differentiate, setup_context=_keep)
torch.library.register_autograd("sentinel::add_norm_backward", _refuse)
