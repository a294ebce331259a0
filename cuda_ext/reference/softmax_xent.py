"""Cross-entropy over a vocabulary and its gradient in plain torch: what sentinel::softmax_xent and sentinel::scale_ mean."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_tensor

WIDEST = 2**31 - 1  # columns; rows × columns may be more


def check_arguments(
    logits: Tensor, targets: Tensor, weight: Tensor | None, expected: Tensor | None, op: str = "softmax_xent"
) -> None:
    """Raises ValueError naming the argument. logits (N, V), targets (N,), weight and expected scalars, all on one device."""
    check_tensor(logits, op, "logits")
    check(logits.dim() == 2, op, "logits", f"{logits.dim()} dimensions, must be 2: (tokens, vocabulary)")
    # The sizes are not named: torch.compile takes a number that is written into a sentence for a constant, and compiles for each.
    check(logits.shape[1] >= 1, op, "logits", "a vocabulary of 0, must be at least 1")
    check(logits.shape[1] <= WIDEST, op, "logits", f"a vocabulary too large, must be at most {WIDEST}")
    check_tensor(targets, op, "targets", dtypes=[torch.int64], shape=logits.shape[:1], device=logits.device)
    for argument, scalar in (("weight", weight), ("expected", expected)):
        if scalar is not None:
            check_tensor(scalar, op, argument, dtypes=[torch.float32], shape=[], device=logits.device)


def softmax_xent(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
    expected: Tensor | None,
    z_loss: float,
    ignore_index: int,
    wants_gradient: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(total, losses, lse, dlogits, stats, mean), as cuda_ext.ops.softmax_xent says. `weight`: of each token in the total; where
    None, 1 over the number of counted tokens. `expected`: 1 where None. Without wants_gradient dlogits is empty, (0,)."""
    check_arguments(logits, targets, weight, expected)
    rows = logits.shape[0]
    counted = targets != ignore_index
    number = counted.sum().clamp(min=1)
    if rows == 0:
        empty = logits.new_empty((0,), dtype=torch.float32)
        stats = logits.new_zeros((4,), dtype=torch.float64)
        zero = logits.new_zeros((), dtype=torch.float32)
        gradient = torch.empty_like(logits) if wants_gradient else logits.new_empty((0,))
        return zero, empty, empty.clone(), gradient, stats, zero.clone()
    if weight is None:
        weight = number.float().reciprocal()
    if expected is None:
        expected = torch.ones_like(weight)
    losses, lse, dlogits = of_rows(logits.float(), targets, weight, expected, z_loss, ignore_index)
    outside = counted & ((targets < 0) | (targets >= logits.shape[1]))
    summed = torch.where(counted, losses, 0.0).double()
    squares = torch.where(counted, lse, 0.0).double().square()
    total = (weight.double() * (summed + z_loss * squares)).sum().float()
    nonfinite = (~torch.isfinite(logits)).sum() + outside.sum()
    stats = torch.stack([logits.amax().double(), nonfinite.double(), summed.sum(), squares.sum()])
    gradient = dlogits.to(logits.dtype) if wants_gradient else logits.new_empty((0,))
    return total, losses, lse, gradient, stats, (stats[2] / number).float()


def softmax_xent_(
    logits: Tensor, targets: Tensor, weight: Tensor | None, expected: Tensor | None, z_loss: float, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The same with the gradient written over the logits: (total, losses, lse, stats, mean)."""
    check_arguments(logits, targets, weight, expected, "softmax_xent_")
    total, losses, lse, dlogits, stats, mean = softmax_xent(logits, targets, weight, expected, z_loss, ignore_index)
    logits.copy_(dlogits)
    return total, losses, lse, stats, mean


def of_rows(
    x: Tensor, targets: Tensor, weight: Tensor, expected: Tensor, z_loss: float, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(losses, lse, dlogits) in x's own precision: float32 in the op, float64 where a test asks what is exact."""
    counted = targets != ignore_index
    inside = (targets >= 0) & (targets < x.shape[1])
    column = torch.where(inside, targets, 0).unsqueeze(1)
    largest = x.amax(1, keepdim=True)
    power = (x - largest).exp()  # NaN throughout a row whose largest is NaN or infinite
    total = torch.where(largest.isfinite(), power.sum(1, keepdim=True), torch.nan)
    lse = (largest + total.log()).squeeze(1)
    losses = total.log().squeeze(1) - (x.gather(1, column) - largest).squeeze(1)
    losses = torch.where(counted, torch.where(inside, losses, torch.nan), 0.0)
    pull = torch.where(inside, (weight * expected).to(x.dtype), torch.nan).unsqueeze(1)
    dlogits = pull * (1 + 2 * z_loss * lse.unsqueeze(1)) / total * power
    dlogits.scatter_add_(1, column, -pull)
    return losses, lse, torch.where(counted.unsqueeze(1), dlogits, 0.0)


def scale_(x: Tensor, factor: Tensor) -> None:
    """x · factor in place, in float32, rounded once to x's dtype; not a bit changes where the factor is 1."""
    check_tensor(x, "scale_", "x")
    check_tensor(factor, "scale_", "factor", dtypes=[torch.float32], shape=[], device=x.device)
    x.copy_(torch.where(factor == 1, x, (x.float() * factor).to(x.dtype)))
