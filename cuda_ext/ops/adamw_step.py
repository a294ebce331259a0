"""adamw_step: AdamW over many tensors, with statistics of the update."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..reference.adamw_step import adamw_step as _reference
from ..registry import declare

__all__ = ["CONTROLS", "adamw_step"]

CONTROLS = ("lr", "beta1", "beta2", "eps", "weight_decay", "grad_factor", "gate")
"""What `control` holds, in this order."""
Tensors = Sequence[torch.Tensor]


def _fake(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    step: torch.Tensor,
    control: torch.Tensor,
    decays: Sequence[float],
) -> torch.Tensor:
    del grads, exp_avgs, exp_avg_sqs, step, decays
    return control.new_empty((len(params), 4))


_op = declare(
    "adamw_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!) step, "
    "Tensor control, float[] decays) -> Tensor",
    _reference,
    _fake,
)


@torch.no_grad()
def adamw_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    step: torch.Tensor,
    control: torch.Tensor,
    decays: Sequence[float],
) -> torch.Tensor:
    """One update of AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) in place, and its statistics. Float64 (T, 4).

    params, exp_avgs, exp_avg_sqs: T contiguous float32 tensors each; grads: of the same sizes, float32 or bfloat16. They may be
    empty, and begin anywhere. step: float32 scalar, the updates applied so far. control: float64 (7,), see CONTROLS, on the
    tensors' device, so that the host decides nothing and waits for nothing; gradients are multiplied by its grad_factor, the
    clipping coefficient over the loss scale. decays: what weight_decay is multiplied by for each tensor, 0.0 for none.

    A gate other than 0 (NaN included), or a grad_factor that float32 cannot hold, changes not one bit of parameters, moments and
    step. Otherwise a gradient that is not finite does what it does in torch: whoever wants such an update left out sets the gate.

    Returns for each tensor [sum of squares of what its parameters were changed by, of the parameters afterwards, of the second
    moments afterwards, the largest second moment]: what stands in memory, gated or not. Empty tensors give zeros.

    Raises ValueError, or RuntimeError under some versions of torch, for a tensor of another dtype, layout, size or device, and
    names it. Shapes may differ where the elements are as many.
    """
    stats: torch.Tensor = _op(list(params), list(grads), list(exp_avgs), list(exp_avg_sqs), step, control, list(decays))
    if not torch.compiler.is_compiling():
        # Autograd must see that they changed: a backward pass that still needs the old ones is refused, not wrong.
        torch.autograd.graph.increment_version([*params, *exp_avgs, *exp_avg_sqs, step])
    return stats
