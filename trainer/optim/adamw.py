"""AdamW in plain PyTorch over this rank's shards, measured beside the update: the reference of trainer.optim.fused_adamw.

Clipping and fp16 unscaling ride on the fused kernel's `grad_scale`, the gate on its `found_inf`: a gated update changes no
parameter, no moment and no Adam count. Measuring the update takes a copy of the parameters before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .measures import LocalState, flat_views, measure_gradients, squares_by_rows, squares_of


@dataclass(frozen=True)
class Hyperparameters:
    """The settings of one update."""

    lr: float
    clip_norm: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float


@dataclass(frozen=True)
class Shards:
    """This rank's part of the model, by parameter name; what holds no element here is left out."""

    filled: Mapping[str, nn.Parameter]
    matrices: frozenset[str]  # which of them decay
    moments: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    second: torch.Tensor  # all second moments, as flat_views lays them out
    groups: list[list[str]]  # names by layer, for the gradients' norms
    device: torch.device


class TorchAdamW:
    """`updates`: measure the update and Adam's second moments too, for 4 bytes a parameter."""

    def __init__(self, shards: Shards, updates: bool) -> None:
        self._shards, self.count = shards, torch.zeros((), device=shards.device)
        filled = shards.filled
        matrices = [p for name, p in filled.items() if name in shards.matrices]
        vectors = [p for name, p in filled.items() if name not in shards.matrices]
        groups = [{"params": part} for part in (matrices, vectors)]
        self.adamw = torch.optim.AdamW([groups[0], groups[1] | {"weight_decay": 0.0}], fused=True)
        self._steps = {name: torch.zeros((), device=shards.device) for name in filled}
        self.count = next(iter(self._steps.values()), self.count)
        for name, local in filled.items():
            exp_avg, exp_avg_sq = shards.moments[name]
            self.adamw.state[local] = {"step": self._steps[name], "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
        self._zero = torch.zeros((), dtype=torch.float64, device=shards.device)
        self.update_squares = self._zero.clone()  # of the last update, this rank's shards
        self._before: torch.Tensor | None = None
        self._views: list[torch.Tensor] = []
        if updates:
            self._before, self._views = flat_views([local.shape for local in filled.values()], shards.second)

    def set(self, hyper: Hyperparameters) -> None:
        for group, decay in zip(self.adamw.param_groups, (hyper.weight_decay, 0.0), strict=True):
            group.update(lr=hyper.lr, betas=hyper.betas, eps=hyper.eps, weight_decay=decay)

    def read_back(self) -> dict[str, Any]:
        """What the next update will use, from the optimizer itself."""
        return {key: self.adamw.param_groups[0][key] for key in ("lr", "betas", "eps", "weight_decay")}

    def set_count(self, steps: torch.Tensor) -> None:
        """Of updates made, on every parameter; parameters or moments may have changed, too."""
        for count in (*self._steps.values(), self.count):
            count.copy_(steps)

    def state_changed(self) -> None:
        """Parameters or moments were changed other than by an update. They are measured before each update, so nothing is
        cached."""

    def measure(self, gradients: dict[str, torch.Tensor], _scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Before the update: sums of squares of each group, still times the loss scale, and how many elements are not finite."""
        return measure_gradients([[gradients[name] for name in group] for group in self._shards.groups], self._shards.device)

    def state_before(self) -> LocalState:
        """Of the state that the update will begin with."""
        filled = list(self._shards.filled.values())
        if self._before is None:
            return LocalState(
                param_squares=squares_of(filled, self._shards.device),
                update_squares=self._zero,
                second_squares=self._zero,
                second_max=self._zero,
            )
        if self._views:
            torch._foreach_copy_(self._views, filled)
        second = self._shards.second
        parameters = squares_of([self._before], self._shards.device)
        return LocalState(
            param_squares=parameters,
            update_squares=self.update_squares,
            second_squares=squares_by_rows(second),
            second_max=second.amax(),
        )

    def apply(
        self, gradients: dict[str, torch.Tensor], clip_coef: torch.Tensor, scale: torch.Tensor, skipped: torch.Tensor
    ) -> None:
        """Update once, unless `skipped`."""
        for name, gradient in gradients.items():
            self._shards.filled[name].grad = gradient
        # The kernel compares found_inf with exactly 1; it divides gradients by grad_scale.
        self.adamw.grad_scale = (scale / clip_coef).float()
        self.adamw.found_inf = skipped.float()
        self.adamw.step()
        if not self._shards.filled:
            self.count += 1.0 - self.adamw.found_inf  # as the kernel does with its own
        if self._before is not None and self._views:
            # What was before minus what is now, in the place of what was before: exactly what the parameters were changed by.
            torch._foreach_sub_(self._views, list(self._shards.filled.values()))
            self.update_squares = squares_by_rows(self._before)
        self.adamw.zero_grad(set_to_none=True)
