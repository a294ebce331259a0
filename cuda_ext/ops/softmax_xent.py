"""Cross-entropy and its gradient in one read and one write of the logits, with the loss's own telemetry: sentinel::softmax_xent.

The logits are the largest activation, so the forward pass computes their gradient while it holds them, for the upstream gradient
that the caller expects. Backward then has nothing to do, unless the upstream gradient is another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_tensor
from ..reference import softmax_xent as reference
from ..registry import declare


def softmax_xent(
    logits: Tensor,
    targets: Tensor,
    *,
    z_loss: float = 0.0,
    ignore_index: int = -100,
    expected: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean cross-entropy in nats of logits (..., V) for targets (...) int64, with z_loss · lse² added to each token's.

    Returns (total, cross_entropy, stats): `total` is what to call backward on, a float32 scalar; `cross_entropy` is the mean
    without the z-loss, detached; `stats` float64 [largest logit, NaN where one is; logits that are not finite plus targets out
    of range; Σ cross-entropy; Σ lse²]. Means and sums are over the tokens whose target is not `ignore_index`; of none, 0.
    A target out of range makes its token's loss and gradient NaN. logits float32, bfloat16 or float16, contiguous, any V ≥ 1.

    `expected`: the gradient `total` will get, a float32 scalar on the logits' device (a loss scale, a share of accumulated
    micro-batches; 1 where None). Another gradient is right as well and costs one pass; exactly this one costs none, and in
    float16 keeps small gradients from vanishing. One backward per call, without create_graph: the gradient is scaled where it
    lies, and has none itself.

    ValueError names the argument a mistake is in. Sources: z-loss, PaLM (arXiv 2204.02311) section 5; log-sum-exp kept relative
    to a running maximum, Milakov and Gimelshein (arXiv 1805.02867).
    """
    op = "softmax_xent"
    check_tensor(logits, op, "logits")
    check(logits.dim() >= 1, op, "logits", "no dimensions, must be (..., vocabulary)")
    check(logits.shape[-1] >= 1, op, "logits", "a vocabulary of 0, must be at least 1")
    check_tensor(targets, op, "targets", dtypes=[torch.int64], shape=logits.shape[:-1], device=logits.device)
    if expected is None:
        expected = torch.ones((), dtype=torch.float32, device=logits.device)
    rows, columns = logits.view(-1, logits.shape[-1]), targets.view(-1)
    counted = (columns != ignore_index).sum().clamp(min=1)
    weight = counted.float().reciprocal()
    reference.check_arguments(rows, columns, weight, expected)
    total, _, _, _, stats = torch.ops.sentinel.softmax_xent(rows, columns, weight, expected, z_loss, ignore_index)
    return total, (stats[2] / counted).float(), stats


def _fake(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows = logits.shape[0]
    return (
        logits.new_empty((), dtype=torch.float32),
        logits.new_empty((rows,), dtype=torch.float32),
        logits.new_empty((rows,), dtype=torch.float32),
        torch.empty_like(logits),
        logits.new_empty((4,), dtype=torch.float64),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    expected = inputs[3]
    _, losses, lse, dlogits, stats = output
    ctx.mark_non_differentiable(losses, lse, dlogits, stats)
    ctx.set_materialize_grads(False)  # else zeros as large as the logits for outputs that have no gradient
    ctx.save_for_backward(dlogits, expected)
    ctx.spent = False


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    if ctx.spent:
        raise RuntimeError(
            "softmax_xent: backward a second time through one call: its gradient was made in the forward and given away;"
            " call softmax_xent again"
        )
    if torch.is_grad_enabled():
        raise RuntimeError("softmax_xent: backward with create_graph: its gradient was made in the forward and has none itself")
    ctx.spent = True
    dlogits, expected = ctx.saved_tensors
    factor = (grad.float() / expected).masked_fill(grad == expected, 1.0)  # 0 of an expected 0 is as expected, not 0 / 0
    if type(dlogits) is not Tensor:  # traced by torch.compile, where nothing that was saved may change
        return ((dlogits.float() * factor).to(dlogits.dtype), *(None,) * 5)
    torch.ops.sentinel.scale_(dlogits, factor)
    return (dlogits, *(None,) * 5)


softmax_xent_op = declare(
    "softmax_xent(Tensor logits, Tensor targets, Tensor weight, Tensor expected, float z_loss, int ignore_index)"
    " -> (Tensor total, Tensor losses, Tensor lse, Tensor dlogits, Tensor stats)",
    reference.softmax_xent,
    _fake,
)
torch.library.register_autograd("sentinel::softmax_xent", _backward, setup_context=_setup)
scale_op = declare("scale_(Tensor(a!) x, Tensor factor) -> ()", reference.scale_, lambda *_: None)
