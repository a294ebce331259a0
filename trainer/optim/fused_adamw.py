"""AdamW on our own kernels over this rank's shards: gradients are read once to be measured and once to be applied, and the
statistics of parameters, moments and the update come from the pass that changes them. 32 bytes a parameter in all.

The statistics that an update returns are of the state after it, which is the state the next step begins with: the same numbers
as the plain path measures. A change from outside between two updates (a checkpoint, a reset, a flipped bit) would go unseen
until the next one. After changes that the trainer makes itself, a gated update measures the state: it changes nothing and
returns the same bits. On 2 to 64 ranks, where each rank's shard is reported so that a single faulty rank is found, parameters
are read once more: 4 bytes.
"""

from __future__ import annotations

from typing import Any

import torch

from ..fused import adamw_step, grad_stats
from .adamw import Hyperparameters, Shards
from .measures import LocalState, squares_of

FACTOR, GATE = 5, 6  # places in the control vector, behind lr, beta1, beta2, eps and weight_decay
LARGEST = torch.finfo(torch.float32).max


class FusedAdamW:
    """`reads_parameters`: measure the parameters themselves before each update. `guarded`: a gate leaves out every update that is
    not finite."""

    def __init__(self, shards: Shards, *, reads_parameters: bool, guarded: bool) -> None:
        self._shards, self._reads_parameters, self._guarded = shards, reads_parameters, guarded
        self._parameters = [local.detach() for local in shards.filled.values()]
        moments = [shards.moments[name] for name in shards.filled]
        self._firsts, self._seconds = [first for first, _ in moments], [second for _, second in moments]
        self._decays = [1.0 if name in shards.matrices else 0.0 for name in shards.filled]
        self._control = torch.zeros(7, dtype=torch.float64, device=shards.device)
        self._sent: tuple[float, ...] = (0.0,) * FACTOR  # what of it the host has put there
        self.count = torch.zeros((), device=shards.device)
        self.update_squares = torch.zeros((), dtype=torch.float64, device=shards.device)
        self._table: torch.Tensor | None = None  # (parameters, 4) statistics of the present state; None: not measured yet
        self._places = self._places_of_groups()

    def _places_of_groups(self) -> torch.Tensor:
        """(groups, most parameters of one): which row of a table by parameter belongs to which group, filled up with the row
        behind the last. A sum over such rows is in a fixed order and spreads no NaN from one group to another."""
        rows = {name: row for row, name in enumerate(self._shards.filled)}
        widest = max((len(group) for group in self._shards.groups), default=0)
        padded = [[rows[name] for name in group] + [len(rows)] * (widest - len(group)) for group in self._shards.groups]
        return torch.tensor(padded, dtype=torch.int64, device=self._shards.device).view(len(padded), widest)

    def set(self, hyper: Hyperparameters) -> None:
        """Only what has changed goes to the device, as arguments of a launch: the host does not wait."""
        wanted = (hyper.lr, *hyper.betas, hyper.eps, hyper.weight_decay)
        for place, (was, now) in enumerate(zip(self._sent, wanted, strict=True)):
            if was != now:
                self._control[place].fill_(now)
        self._sent = wanted

    def read_back(self) -> dict[str, Any]:
        """What the next update will use, from the device itself."""
        lr, beta1, beta2, eps, weight_decay = self._control.tolist()[:FACTOR]
        return {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay}

    def set_count(self, steps: torch.Tensor) -> None:
        """Of updates made; parameters or moments may have changed, too."""
        self.count.copy_(steps)
        self._table = None

    def state_changed(self) -> None:
        """Parameters or moments were changed other than by an update: the last statistics are out of date."""
        self._table = None

    def measure(self, gradients: dict[str, torch.Tensor], scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Before the update: sums of squares of each group, still times the loss scale, and how many elements are not finite.
        They are measured unscaled: squares of scaled ones would leave float32 more often."""
        table = grad_stats(list(gradients.values()), (1.0 / scale).float())
        squares = torch.cat((table[:, 0], table.new_zeros(1)))[self._places].sum(dim=1)
        return squares * scale.double().square(), table[:, 2].sum()

    def state_before(self) -> LocalState:
        """Of the state that the update will begin with."""
        if self._table is None:
            self._table = self._measure_state()
        _, parameters, second, largest = self._table.unbind(1)
        if self._reads_parameters:
            # In float64, exact but for its rounding: a flipped low bit of one weight must show, too.
            parameters = squares_of(self._parameters, self._shards.device)
        none = self.update_squares.new_zeros(1)  # where this rank holds nothing
        second = out_of_range(second.sum())
        return LocalState(
            param_squares=parameters.sum(),
            update_squares=self.update_squares,
            second_squares=second,
            second_max=torch.cat((largest, none)).amax(),
        )

    def apply(
        self, gradients: dict[str, torch.Tensor], clip_coef: torch.Tensor, scale: torch.Tensor, skipped: torch.Tensor
    ) -> None:
        """Update once, unless `skipped`."""
        factor, gradient_list = clip_coef / scale, list(gradients.values())
        if not self._guarded and gradient_list:
            # The kernel refuses a factor that is not finite. Without a gate it must be applied, so the gradients take it.
            finite = torch.isfinite(factor)
            torch._foreach_mul_(gradient_list, torch.where(finite, 1.0, factor).float())
            factor = torch.where(finite, factor, 1.0 / scale)
        self._control[FACTOR].copy_(factor)
        self._control[GATE].copy_(skipped)
        if self._parameters:
            self._table = self._update(gradient_list)
            self.update_squares = out_of_range(self._table[:, 0].sum())
        else:
            self.count += (~skipped).float()  # as the kernel does

    def _measure_state(self) -> torch.Tensor:
        """Measure the present state; nothing changes. The moments are passed as gradients, which a gated update does not use."""
        if not self._parameters:
            return self._control.new_zeros(0, 4)
        self._control[GATE].fill_(1.0)
        return self._update(self._firsts)

    def _update(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        return adamw_step(self._parameters, gradients, self._firsts, self._seconds, self.count, self._control, self._decays)


def out_of_range(squares: torch.Tensor) -> torch.Tensor:
    """Infinite where float32 could not hold it, as in measures.squares_by_rows: a flipped bit causes an update of 10^19,
    and a check for numbers that are not finite must see it on all kernels."""
    return torch.where(squares > LARGEST, torch.inf, squares)
