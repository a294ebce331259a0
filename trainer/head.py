"""The loss of the logits; and the head with its loss in chunks of rows, so that all logits are never there at once.

Logits are the largest tensor of a step: 65,536 tokens over GPT-2's vocabulary are 6.6 GB in bfloat16, and their gradient is as
much again. Everything that is known of them is a sum or a maximum over rows, and so are the gradients of the head's weight and
input. So a chunk of rows goes through the head, its loss, and at once back again; what stays is the gradient of the rows (as
large as they are) and of the weight. Nothing is computed twice. The method is that of Liger-Kernel's fused linear cross-entropy
(Hsu et al. 2024, arXiv 2410.10989, section 3.2); sums over chunks are float32 here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from .fused import scale_, softmax_xent


class HeadLoss(NamedTuple):
    """Means over rows, float32 scalars; nothing but `total` carries a gradient."""

    total: torch.Tensor  # cross entropy and the z-loss
    cross_entropy: torch.Tensor  # nats a token
    logit_max: torch.Tensor
    nonfinite: torch.Tensor | None = None  # float64 scalar: logits that are not finite; None: not counted


Head = Callable[[torch.Tensor, torch.Tensor], HeadLoss]
"""What comes behind the last norm (batch, time, width), and the head's weight (vocabulary, width) → their loss."""


def loss_of_logits(
    logits: torch.Tensor, targets: torch.Tensor, z_loss: float, expected: torch.Tensor | None, fused: bool
) -> HeadLoss:
    """Of logits (rows, vocabulary) and targets int64 (rows,), in float32 whatever the type of the logits. `expected` as in
    `compute_loss`; `fused`: by our own kernel, which may write the gradient over the logits: nobody reads them again."""
    if fused:
        total, cross_entropy, statistics = softmax_xent(logits, targets, z_loss=z_loss, expected=expected, overwrite=True)
        return HeadLoss(total, cross_entropy, statistics[0].float(), statistics[1])
    logits = logits.float()
    if z_loss == 0.0:
        cross_entropy = total = F.cross_entropy(logits, targets)
    else:
        partition = torch.logsumexp(logits, dim=1)
        cross_entropy = (partition - logits.gather(1, targets[:, None])[:, 0]).mean()
        total = cross_entropy + z_loss * partition.square().mean()
    return HeadLoss(total, cross_entropy.detach(), logits.detach().amax())


def chunked_head(targets: torch.Tensor, chunk: int, z_loss: float, expected: torch.Tensor | None, fused: bool) -> Head:
    """The head and its loss, `chunk` rows at a time; targets int64 (rows,), and every one counts.

    In float32 it gives what the logits at once give, up to the order of sums. In 16 bits a chunk's part of the weight's gradient
    is rounded before it is added: about as far from the exact one as the whole product, which is rounded once.
    Made for one backward; it asks for the gradient that `expected` announced, and scales by what comes instead.
    """
    loss_of = partial(loss_of_logits, z_loss=z_loss, fused=fused)

    def head(normed: torch.Tensor, weight: torch.Tensor) -> HeadLoss:
        rows = normed.flatten(0, 1)
        if not torch.is_grad_enabled():
            parts = zip(rows.split(chunk), targets.split(chunk), strict=True)
            return _summed([loss_of(F.linear(x, weight), of_x, expected=None) for x, of_x in parts], len(rows), chunk)
        given = torch.ones((), device=rows.device) if expected is None else expected
        total, cross_entropy, logit_max, nonfinite = _ChunkedHead.apply(rows, weight, targets, given, chunk, loss_of)
        return HeadLoss(total=total, cross_entropy=cross_entropy, logit_max=logit_max, nonfinite=nonfinite)

    return head


class _ChunkedHead(torch.autograd.Function):
    """(rows, weight) → HeadLoss, whose gradients are made on the way and kept for backward."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        expected: torch.Tensor,
        chunk: int,
        loss_of: Callable[..., HeadLoss],
    ) -> HeadLoss:
        of_rows = torch.empty_like(rows)
        of_weight = torch.zeros_like(weight, dtype=torch.float32)
        losses = []
        for x, of_x, into in zip(rows.split(chunk), targets.split(chunk), of_rows.split(chunk), strict=True):
            given = expected * (len(x) / len(rows))
            with torch.enable_grad():
                logits = F.linear(x.detach().requires_grad_(), weight.detach())
                loss = loss_of(logits, of_x, expected=given)
                (gradient,) = torch.autograd.grad(loss.total, logits, given)
            losses.append(loss._replace(total=loss.total.detach()))
            del logits, loss  # else the next chunk's come while these are there
            torch.mm(gradient, weight, out=into)
            if weight.dtype == torch.float32:
                of_weight.addmm_(gradient.t(), x)
            else:
                of_weight += gradient.t() @ x
            del gradient
        ctx.save_for_backward(expected)
        ctx.made = (of_rows, of_weight.to(weight.dtype))
        result = _summed(losses, len(rows), chunk)
        ctx.mark_non_differentiable(*(one for one in result[1:] if one is not None))
        ctx.set_materialize_grads(False)
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:
        if grad is None:
            return (None,) * 6
        if ctx.made is None:
            raise RuntimeError("chunked head: backward a second time through one forward; its gradients were given away")
        if torch.is_grad_enabled():
            raise RuntimeError("chunked head: backward with create_graph; its gradients were made in the forward and have none")
        made, ctx.made = ctx.made, None
        (expected,) = ctx.saved_tensors
        factor = (grad.float() / expected).masked_fill(grad == expected, 1.0)  # 0 of an expected 0 is as expected, not 0 / 0
        for gradient in made:
            scale_(gradient, factor)
        return (*made, None, None, None, None)


def _summed(losses: list[HeadLoss], rows: int, chunk: int) -> HeadLoss:
    """Of all chunks: means count by their share of the rows."""
    shares = [min(chunk, rows - start) / rows for start in range(0, rows, chunk)]
    total, cross_entropy = (
        torch.stack([column.double() * share for column, share in zip(one, shares, strict=True)]).sum().float()
        for one in (tuple(loss.total for loss in losses), tuple(loss.cross_entropy for loss in losses))
    )
    counts = [loss.nonfinite for loss in losses if loss.nonfinite is not None]
    largest = torch.stack([loss.logit_max for loss in losses]).amax()
    return HeadLoss(total, cross_entropy, largest, torch.stack(counts).sum() if counts else None)
