"""adamw_step in plain torch: its specification. The device is never waited for: a step that does not apply is selected away."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..checks import check, check_tensor, check_tensors

OP = "adamw_step"
CONTROLS = 7
Tensors = Sequence[torch.Tensor]


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
    _check(params, grads, exp_avgs, exp_avg_sqs, step, control, decays)
    lr, beta1, beta2, eps, weight_decay, grad_factor, gate = control.view(-1).unbind()
    factor = grad_factor.float()
    applies = (gate == 0) & factor.isfinite()
    count = step.double().view(()) + 1
    step_size = (lr / (1 - beta1**count)).float()
    root_correction = (1 / (1 - beta2**count).sqrt()).float()
    lerp_weight, beta2_float, one_minus_beta2 = (1 - beta1).float(), beta2.float(), (1 - beta2).float()
    rows = []
    flat = ([tensor.view(-1) for tensor in tensors] for tensors in (params, grads, exp_avgs, exp_avg_sqs))
    for param, grad, first, second, decay in zip(*flat, decays, strict=True):
        scaled = grad.float() * factor
        decayed = param * (1 - lr * weight_decay * decay).float()
        # From the nearer end, as torch.lerp: with a beta of zero the moment is the gradient itself.
        ahead = scaled - first
        new_first = torch.where(lerp_weight < 0.5, first + lerp_weight * ahead, scaled + (lerp_weight - 1) * ahead)
        new_second = second * beta2_float + one_minus_beta2 * scaled * scaled
        new_param = decayed - step_size * new_first / (new_second.sqrt() * root_correction + eps.float())
        update = torch.where(applies, new_param - param, 0.0)
        for old, new in ((param, new_param), (first, new_first), (second, new_second)):
            old.copy_(torch.where(applies, new, old))
        rows.append(_stats(update, param, second))
    step.copy_(torch.where(applies, step + 1, step))
    return torch.stack(rows) if rows else control.new_empty((0, 4))


def _stats(update: torch.Tensor, param: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    squares = [tensor.double().square().sum() for tensor in (update, param, second)]
    largest = second.abs().amax().double() if second.numel() else torch.zeros_like(squares[0])
    return torch.stack([*squares, largest])


def _check(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, step: torch.Tensor, control: torch.Tensor,
    decays: Sequence[float],
) -> None:  # fmt: skip
    check_tensor(control, OP, "control", dtypes=(torch.float64,), elements=CONTROLS)
    check_tensor(step, OP, "step", dtypes=(torch.float32,), elements=1, device=control.device)
    lists: dict[str, Tensors] = {"params": params, "grads": grads, "exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs}
    for name, values in {**lists, "decays": decays}.items():
        check(len(values) == len(params), OP, name, f"{len(values)} of them, must be as many as params, {len(params)}")
    sizes = [param.numel() for param in params]
    for name, tensors in lists.items():
        dtypes = (torch.float32, torch.bfloat16) if name == "grads" else (torch.float32,)
        check_tensors(tensors, OP, name, dtypes=dtypes, elements=sizes, device=control.device)
