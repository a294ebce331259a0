"""The statistics of a step line: names fixed at the start, values in one vector on the device."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from .measures import Totals

RANKS_LISTED_MAX = 64  # beyond so many ranks a step line has no number for each
BLOCK = re.compile(r"(?:^|\.)blocks\.(\d+)\.")


@dataclass(frozen=True)
class UpdateStatistics:
    """PROTOCOL.md's metrics, of all ranks and parameters: float64 values (len(names),) on the device.

    Gradients are unscaled and before clipping. Norms of parameters and of Adam's moments are of the state that the step
    began with: the shards' sums cross in the one collective of a step, which comes before the update. So `update_norm` is that of
    the update before, whose effect this step's loss shows: 0 at the first step and after an update that was left out.

    Why Adam's second moments are reported: Li, Zhang and He 2021 (the stability-efficiency dilemma) found their norm and
    maximum to go along with loss spikes, most of all as the warm-up ends; Molybog et al. 2023 explain spikes by moments out of
    step.
    """

    names: tuple[str, ...]
    values: torch.Tensor

    def __getitem__(self, name: str) -> torch.Tensor:
        """A float64 scalar, still on the device. Raises ValueError for a name that is not reported."""
        return self.values[self.names.index(name)]

    @property
    def overflow(self) -> torch.Tensor:
        """1 where the loss or a gradient element was not finite, else 0: for the loss scaler."""
        return self["overflow"]


def group_of(name: str, layers: int) -> str:
    """Which of embed, block-00…, head a parameter belongs to. A head tied to the embedding is the embedding."""
    if found := BLOCK.search(name):
        return block_name(int(found[1]), layers)
    return "head" if name.split(".")[0] in ("norm", "head") else "embed"


def block_name(block: int, layers: int) -> str:
    """block-00, block-01…, with as many digits as the last one needs, so that they sort."""
    return f"block-{block:0{max(2, len(str(layers - 1)))}d}"


def largest_share(squares: torch.Tensor) -> torch.Tensor:
    """float64 (1,): what the largest of the squared norms (groups,) is of their sum; 0 where all are 0, 1 where one is not
    finite: that is reported under the gradient's own name."""
    share = squares.max() / squares.sum().clamp(min=torch.finfo(squares.dtype).tiny)
    return torch.where(share.isfinite(), share, 1.0).double().reshape(1)


@dataclass(frozen=True)
class StatisticsLayout:
    """Which statistics are reported, and in which order: `layers` of each layer, `updates` of the update and Adam's second
    moments."""

    groups: tuple[str, ...]  # of gradients, as Totals.grad_squares has them; one alone if layers is off
    blocks: int
    ranks: int
    layers: bool
    updates: bool
    counts: bool = False  # what of streams and logits is not finite

    def names(self) -> tuple[str, ...]:
        """In the order of `values`."""
        names = ["loss", "grad_norm", "nonfinite_count", "activation_norm", "logit_max", "param_norm"]
        names += ["clip_coef", "overflow", "skipped", "loss_scale"]
        if self.updates:
            names += ["update_norm", "adam_v_norm", "adam_v_max"]
        if self.counts:
            names += ["nonfinite_activations", "nonfinite_logits"]
        if self.layers:
            blocks = [block_name(block, self.blocks) for block in range(self.blocks)]
            names += ["grad_share_max", *(f"grad_norm/{group}" for group in self.groups)]
            names += [f"{kind}/{block}" for kind in ("activation_norm", "activation_max") for block in blocks]
        if self.per_rank:
            names += [f"param_norm/rank-{rank}" for rank in range(self.ranks)]
        return tuple(names)

    def values(
        self, totals: Totals, grad_norm: torch.Tensor, clip_coef: torch.Tensor, decided: list[torch.Tensor]
    ) -> torch.Tensor:
        """float64 (len(names),). `decided` are overflow, skipped and loss scale, float64 scalars."""
        activations = totals.activation_squares.sqrt()
        scalars = [totals.loss, grad_norm, totals.nonfinite, activations[-1], totals.logit_max, totals.param_squares.sqrt()]
        scalars += [clip_coef, *decided]
        if self.updates:
            scalars += [totals.update_squares.sqrt(), totals.second_squares.sqrt(), totals.second_max]
        parts = [torch.stack(scalars), totals.not_finite]
        if self.layers:
            parts.append(largest_share(totals.grad_squares))
            parts += [totals.grad_squares.sqrt() / decided[-1], activations, totals.activation_max]
        if self.per_rank:
            parts.append(totals.rank_param_squares.sqrt())
        return torch.cat(parts)

    @property
    def per_rank(self) -> bool:
        """Whether each rank's own shard has a number."""
        return 1 < self.ranks <= RANKS_LISTED_MAX
