"""The loss to differentiate, the loss to report, and what a forward pass shows of the model on the way."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from .head import chunked_head, loss_of_logits


class Losses(NamedTuple):
    """Of one forward pass of one rank; nothing but `total` carries a gradient."""

    total: torch.Tensor  # what is differentiated: cross entropy and the z-loss
    cross_entropy: torch.Tensor  # float32 scalar, nats a token: the reported loss
    logit_max: torch.Tensor  # float32 scalar
    layers: torch.Tensor  # float32 (layers or 1, 2): mean square and largest magnitude of the residual stream behind each block
    nonfinite: torch.Tensor | None = None  # float64 (2,): elements of these streams, and of the logits; None: not counted


class ForwardStatistics(NamedTuple):
    """What a rank saw in its whole share of a batch. The same shapes as in Losses."""

    loss: torch.Tensor
    logit_max: torch.Tensor
    layers: torch.Tensor
    nonfinite: torch.Tensor | None = None

    @classmethod
    def of(cls, losses: Losses, share: float) -> ForwardStatistics:
        """A part of the batch: means count by its share of the sequences, maxima as they are."""
        if share == 1.0:
            return cls(loss=losses.cross_entropy, logit_max=losses.logit_max, layers=losses.layers, nonfinite=losses.nonfinite)
        squares, largest = losses.layers.unbind(1)
        layers = torch.stack([squares * share, largest], dim=1)
        return cls(loss=losses.cross_entropy * share, logit_max=losses.logit_max, layers=layers, nonfinite=losses.nonfinite)

    def with_part(self, other: ForwardStatistics) -> ForwardStatistics:
        squares = self.layers[:, 0] + other.layers[:, 0]
        largest = torch.maximum(self.layers[:, 1], other.layers[:, 1])
        logit_max = torch.maximum(self.logit_max, other.logit_max)
        counted = self.nonfinite is not None and other.nonfinite is not None
        nonfinite = torch.add(self.nonfinite, other.nonfinite) if counted else None
        return ForwardStatistics(
            loss=self.loss + other.loss, logit_max=logit_max, layers=torch.stack([squares, largest], dim=1), nonfinite=nonfinite
        )


def compute_loss(
    model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, z_loss: float = 0.0, expected: torch.Tensor | None = None
) -> Losses:
    """Means over all tokens of inputs and targets, int64 (batch, time), in float32 whatever the model's precision.

    `z_loss` weighs the mean of the squared log-partition, which keeps logits from drifting away from 0 where softmax does not see
    it (PaLM, Chowdhery et al. 2022, section 5: 1e-4). It is trained on and never reported, so that curves stay comparable.

    `expected`: float32 scalar, the gradient that `total` will be given, if not 1. Our own kernel makes the gradient of the logits
    in the pass that makes the loss, and a 16-bit one would underflow before a loss scale that came later.

    Where parallel.xent_chunk cuts the rows, head and loss run inside the model's forward: there FSDP has the weight whole.
    """
    rows, flat_targets = inputs.numel(), targets.flatten()
    chunk = model.rows_at_once(rows)
    if chunk < rows:
        output = model(inputs, chunked_head(flat_targets, chunk, z_loss, expected, model.fused))
        loss = output.loss
    else:
        output = model(inputs)
        loss = loss_of_logits(output.logits.flatten(0, 1), flat_targets, z_loss, expected, model.fused)
    nonfinite = None if output.nonfinite is None else torch.stack((output.nonfinite, loss.nonfinite))
    return Losses(
        total=loss.total,
        cross_entropy=loss.cross_entropy,
        logit_max=loss.logit_max,
        layers=output.layers,
        nonfinite=nonfinite,
    )
