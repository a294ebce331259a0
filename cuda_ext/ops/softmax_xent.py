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
    overwrite: bool = False,
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

    `overwrite` allows the gradient to be written over the logits, which saves their memory once more: then nothing may read them
    after the call. A backward that needs what was there before is refused, by torch for what other ops kept before the call, by
    this one if anything changed the memory between its call and its backward (a second call on it, another slice of one tensor).
    It is only a permission: logits that are a leaf or a view of one, and all under torch.compile, stay as they are. Where no
    gradient is wanted (torch.no_grad, logits without one) none is made.

    ValueError names the argument a mistake is in. Sources: z-loss, PaLM (arXiv 2204.02311) section 5; log-sum-exp kept relative
    to a running maximum, Milakov and Gimelshein (arXiv 1805.02867).
    """
    op = "softmax_xent"
    check_tensor(logits, op, "logits")
    check(logits.dim() >= 1, op, "logits", "no dimensions, must be (..., vocabulary)")
    check(logits.shape[-1] >= 1, op, "logits", "a vocabulary of 0, must be at least 1")
    check_tensor(targets, op, "targets", dtypes=[torch.int64], shape=logits.shape[:-1], device=logits.device)
    rows, columns = logits.view(-1, logits.shape[-1]), targets.view(-1)
    reference.check_arguments(rows, columns, None, expected)
    wants_gradient = torch.is_grad_enabled() and logits.requires_grad
    whole = logits if logits._base is None else logits._base
    if overwrite and wants_gradient and not whole.is_leaf and not torch.compiler.is_compiling():
        total, mean, stats = _Overwriting.apply(rows, columns, expected, z_loss, ignore_index)
    else:
        total, _, _, _, stats, mean = torch.ops.sentinel.softmax_xent(
            rows, columns, None, expected, z_loss, ignore_index, wants_gradient
        )
    return total, mean, stats


def _fake(
    logits: Tensor, _targets: Tensor, _weight: Any, _expected: Any, _z: float, _ignored: int, wants_gradient: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    total, losses, lse, stats, mean = _fake_overwriting(logits)
    return total, losses, lse, torch.empty_like(logits) if wants_gradient else logits.new_empty((0,)), stats, mean


def _fake_overwriting(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows = logits.shape[0]
    return (
        logits.new_empty((), dtype=torch.float32),
        logits.new_empty((rows,), dtype=torch.float32),
        logits.new_empty((rows,), dtype=torch.float32),
        logits.new_empty((4,), dtype=torch.float64),
        logits.new_empty((), dtype=torch.float32),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    expected, wants_gradient = inputs[3], inputs[6] if len(inputs) > 6 else True
    _, losses, lse, dlogits, stats, mean = output
    ctx.mark_non_differentiable(losses, lse, dlogits, stats, mean)
    ctx.set_materialize_grads(False)  # else zeros as large as the logits for outputs that have no gradient
    ctx.save_for_backward(dlogits, expected)
    ctx.spent, ctx.has_gradient = False, wants_gradient


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    if not ctx.has_gradient:
        raise RuntimeError("softmax_xent: backward through a call with wants_gradient=False")
    dlogits, expected = ctx.saved_tensors
    _refuse_twice(ctx)
    return (_scaled(dlogits, grad, expected), *(None,) * 6)


def _refuse_twice(ctx: Any) -> None:
    if ctx.spent:
        raise RuntimeError(
            "softmax_xent: backward a second time through one call: its gradient was made in the forward and given away;"
            " call softmax_xent again"
        )
    if torch.is_grad_enabled():
        raise RuntimeError("softmax_xent: backward with create_graph: its gradient was made in the forward and has none itself")
    ctx.spent = True


def _scaled(dlogits: Tensor, grad: Tensor, expected: Tensor | None) -> Tensor:
    """The gradient that was made for `expected`, for `grad`; where it lies, and untouched where the two are the same."""
    factor = grad.float()
    if expected is not None:
        factor = (factor / expected).masked_fill(grad == expected, 1.0)  # 0 of an expected 0 is as expected, not 0 / 0
    if type(dlogits) is not Tensor:  # traced by torch.compile, where nothing that was saved may change
        return (dlogits.float() * factor).to(dlogits.dtype)
    torch.ops.sentinel.scale_(dlogits, factor)
    return dlogits


class _Overwriting(torch.autograd.Function):  # type: ignore[misc]
    """softmax_xent_ with its gradient: torch registers none for an op that changes its argument. The change counts as one of the
    logits' version, so a backward of another op that kept them is refused by torch."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, expected: Tensor | None, z_loss: float, ignore_index: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = logits.detach()
        total, _, _, stats, mean = softmax_xent_over_op(own, targets, None, expected, z_loss, ignore_index)
        torch.autograd.graph.increment_version(own)  # an op of a library of our own does not
        ctx.mark_non_differentiable(mean, stats)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(expected)
        ctx.dlogits, ctx.version, ctx.spent = own, own._version, False
        return total, mean, stats

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        _refuse_twice(ctx)
        (expected,) = ctx.saved_tensors  # with checkpointing this computes again, and may write over the logits again
        dlogits, ctx.dlogits = ctx.dlogits, None
        if dlogits._version != ctx.version:
            raise RuntimeError(
                "softmax_xent: the logits were changed between the call and its backward, and with overwrite=True their gradient"
                " lay there; call it with overwrite=False, or on memory of its own"
            )
        return (_scaled(dlogits, grad, expected), *(None,) * 4)


_ARGUMENTS = "Tensor targets, Tensor? weight, Tensor? expected, float z_loss, int ignore_index"
softmax_xent_op = declare(
    f"softmax_xent(Tensor logits, {_ARGUMENTS}, bool wants_gradient=True)"
    " -> (Tensor total, Tensor losses, Tensor lse, Tensor dlogits, Tensor stats, Tensor mean)",
    reference.softmax_xent,
    _fake,
)
torch.library.register_autograd("sentinel::softmax_xent", _backward, setup_context=_setup)
softmax_xent_over_op = declare(
    f"softmax_xent_(Tensor(a!) logits, {_ARGUMENTS})"
    " -> (Tensor total, Tensor losses, Tensor lse, Tensor stats, Tensor mean)",
    reference.softmax_xent_,
    _fake_overwriting,
)
scale_op = declare("scale_(Tensor(a!) x, Tensor factor) -> ()", reference.scale_, lambda *_: None)
