"""The update: one packed reduction, a gate, and fused AdamW, without the device ever waiting for the host.

Works on each rank's local shards: plain tensors cost a fifth of what DTensors do. Clipping and fp16 unscaling both ride on the
fused kernel's `grad_scale`, and the gate on its `found_inf`: a gated update changes no parameter, no moment and no Adam count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

RANKS_TOLD = 64  # beyond so many ranks a step line does not carry a number for each
CLIP_GUARD = 1e-6  # keeps the division finite for a gradient of zero, as torch's clip_grad_norm_ does


@dataclass(frozen=True)
class Hyperparameters:
    """What the optimizer is told before an update."""

    lr: float
    clip_norm: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float


@dataclass(frozen=True)
class UpdateStatistics:
    """Device scalars over all ranks and parameters. Gradients unscaled and before clipping, parameters before the update."""

    loss: torch.Tensor
    grad_norm: torch.Tensor
    nonfinite_count: torch.Tensor
    activation_norm: torch.Tensor
    param_norm: torch.Tensor
    clip_coef: torch.Tensor
    overflow: torch.Tensor  # float32, exactly 0 or 1: a gradient or the loss was not finite
    skipped: torch.Tensor  # the same where the gate is on
    loss_scale: torch.Tensor  # in force during this step
    rank_param_norms: torch.Tensor  # float64[ranks], each rank's own shard; empty beyond RANKS_TOLD ranks


def packed(statistics: UpdateStatistics) -> tuple[tuple[str, ...], torch.Tensor]:
    """Names and one float64 vector."""
    names = [item.name for item in fields(statistics) if item.name != "rank_param_norms"]
    ranks = statistics.rank_param_norms
    values = torch.cat([torch.stack([getattr(statistics, name).double() for name in names]), ranks])
    return (*names, *(f"param_norm/rank-{rank}" for rank in range(len(ranks)))), values


class ShardedAdamW:
    """AdamW over the local shards of an FSDP2 model. `gate` leaves an update out if a gradient or the loss is not finite."""

    def __init__(self, model: nn.Module, gate: bool) -> None:
        self.gate = gate
        self.clip_norm = 1.0
        self._sharded = dict(model.named_parameters())
        # Parameters sharing the storage of the local shards: an update through them is an update of the model.
        self._local = {name: nn.Parameter(p.to_local().detach()) for name, p in self._sharded.items()}
        filled = {name: p for name, p in self._local.items() if p.numel()}  # a small parameter may leave a rank with nothing
        matrices = [p for name, p in filled.items() if self._sharded[name].dim() > 1]
        vectors = [p for name, p in filled.items() if self._sharded[name].dim() <= 1]
        self.adamw = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], fused=True)
        self.device = next(iter(self._local.values())).device
        self._moments: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, local in self._local.items():
            self._moments[name] = (torch.zeros_like(local), torch.zeros_like(local))
        ranks = dist.get_world_size()
        self._own_slot = torch.zeros(ranks, dtype=torch.float64, device=self.device)  # this rank's place in the reduction
        self._own_slot[dist.get_rank()] = 1.0
        self._steps = {name: torch.zeros((), device=self.device) for name in filled}
        for name, local in filled.items():
            first, second = self._moments[name]
            self.adamw.state[local] = {"step": self._steps[name], "exp_avg": first, "exp_avg_sq": second}

    def set(self, hyper: Hyperparameters) -> None:
        """Put settings in force from the next update on."""
        self.clip_norm = hyper.clip_norm
        for group, decay in zip(self.adamw.param_groups, (hyper.weight_decay, 0.0), strict=True):
            group.update(lr=hyper.lr, betas=hyper.betas, eps=hyper.eps, weight_decay=decay)

    def read_back(self) -> dict[str, Any]:
        """What is in force now, from the live optimizer itself, for the receipt."""
        group = self.adamw.param_groups[0]
        effective = {key: group[key] for key in ("lr", "betas", "eps", "weight_decay")}
        return effective | {"clip_norm": self.clip_norm, "optimizer_steps": int(self.count())}

    def count(self) -> torch.Tensor:
        """How many updates Adam itself has counted: gated ones are not among them."""
        return next(iter(self._steps.values()))

    def reset(self) -> None:
        """Forget both moments and the count."""
        for tensor in (*(moment for pair in self._moments.values() for moment in pair), *self._steps.values()):
            tensor.zero_()

    @property
    def shards(self) -> dict[str, nn.Parameter]:
        """This rank's part of each parameter, by name; a change here is one of the model."""
        return self._local

    @property
    def moments(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """This rank's part of Adam's first and second moments, by the parameter's name."""
        return self._moments

    @torch.no_grad()
    def poison_gradient(self, value: float = float("nan")) -> None:
        """Make one gradient element of this rank NaN, or infinite as an overflow is."""
        local = next(p.grad.to_local() for p in self._sharded.values() if p.grad is not None and p.grad.to_local().numel())
        local.view(-1)[0] = value

    @torch.no_grad()
    def update(self, loss: torch.Tensor, mean_square: torch.Tensor, scale: torch.Tensor) -> UpdateStatistics:
        """Apply the gradients once. `loss` and `mean_square` are this rank's means, `scale` the fp16 loss scale or 1."""
        gradients = []
        for name, local in self._local.items():
            local.grad = self._sharded[name].grad.to_local() if local.numel() else None
            if local.grad is not None:
                gradients.append(local.grad)
        packed = self._reduce(gradients, loss, mean_square)
        scale = scale.double()
        grad_norm = packed[0].sqrt() / scale
        clip_coef = (self.clip_norm / (grad_norm + CLIP_GUARD)).clamp(max=1.0)
        unusable = ((packed[1] > 0) | ~torch.isfinite(packed[2])).float()
        # The kernel compares found_inf with exactly 1; it divides gradients by grad_scale.
        self.adamw.grad_scale = (scale / clip_coef).float()
        self.adamw.found_inf = unusable if self.gate else torch.zeros_like(unusable)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        for sharded in self._sharded.values():
            sharded.grad = None
        norms = packed[3].sqrt(), packed[4].sqrt()
        rest = clip_coef, unusable, self.adamw.found_inf, scale, packed[5:].sqrt()
        return UpdateStatistics(packed[2], grad_norm, packed[1], *norms, *rest)

    def _reduce(self, gradients: list[torch.Tensor], loss: torch.Tensor, mean_square: torch.Tensor) -> torch.Tensor:
        """[gradient sum of squares, non-finite elements, loss, activation mean square, parameter sum of squares] over all ranks,
        then the parameter sum of squares of each rank alone: whose shard a flipped bit is in shows there.

        Norms in float64: a sum of float32 squares overflows while every element is finite. Non-finite ones are counted apart.
        """
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        squares, counted, weights = zero, zero, zero
        if gradients:
            squares = torch.stack(torch._foreach_norm(gradients, 2, torch.float64)).square().sum()
            flat = torch.cat([gradient.view(-1) for gradient in gradients])
            counted = flat.numel() - torch.isfinite(flat).sum(dtype=torch.float64)
            own = [local for local in self._local.values() if local.numel()]
            weights = torch.stack(torch._foreach_norm(own, 2, torch.float64)).square().sum()
        ranks = dist.get_world_size()
        packed = torch.stack([squares, counted, loss.double() / ranks, mean_square.double() / ranks, weights])
        if 1 < ranks <= RANKS_TOLD:
            packed = torch.cat([packed, self._own_slot * weights])
        dist.all_reduce(packed)
        return packed

    @torch.no_grad()
    def numbers(self) -> dict[str, float]:
        """What the parameters and both moments amount to over all ranks, whatever their number: L2 norms, and how many elements
        are not finite. A collective: every rank calls it, every rank gets the same. The norms of gradients to come are not in it.

        A norm in float64 is finite exactly where every element is (squares of float32 do not overflow it), so the elements are
        only counted where a norm is not.
        """
        kinds = [list(self._local.values()), *(list(moments) for moments in zip(*self._moments.values(), strict=True))]
        packed = torch.zeros(len(kinds) + 1, dtype=torch.float64, device=self.device)
        for place, tensors in enumerate(kinds):
            own = [tensor for tensor in tensors if tensor.numel()]
            if own:
                packed[place] = torch.stack(torch._foreach_norm(own, 2, torch.float64)).square().sum()
            if not math.isfinite(packed[place].item()):
                packed[-1] += sum(int(tensor.numel() - torch.isfinite(tensor).sum()) for tensor in own)
        dist.all_reduce(packed)
        norms, count = packed[:-1].sqrt().tolist(), packed[-1].item()
        return dict(zip(("param_norm", "adam_m_norm", "adam_v_norm"), norms, strict=True)) | {"nonfinite": int(count)}

    def state(self) -> dict[str, Any]:
        """Parameters, moments and Adam's count under stable names, sharded as the model is: what a checkpoint holds.

        Loading in place into these tensors restores the optimizer; call `adopt_count` afterwards.
        """
        state: dict[str, Any] = {"adam.step": self.count().detach().clone().cpu()}
        for name, sharded in self._sharded.items():
            state[f"model.{name}"] = sharded.detach()
            for kind, moment in zip(("exp_avg", "exp_avg_sq"), self._moments[name], strict=True):
                state[f"adam.{kind}.{name}"] = DTensor.from_local(
                    moment, sharded.device_mesh, sharded.placements, run_check=False, shape=sharded.shape, stride=sharded.stride()
                )
        return state

    def adopt_count(self, steps: torch.Tensor) -> None:
        """Set Adam's count on every parameter, after a checkpoint was loaded."""
        for count in self._steps.values():
            count.copy_(steps)
