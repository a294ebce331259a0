"""The decoder: embedding, pre-norm blocks, a norm and a head. Its options are in trainer.config.sections.Model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from .. import fused
from ..config import Config
from ..config.sections import Model
from .attention import Attention
from .feed_forward import FeedForward
from .norms import layer_norm, norm
from .rotary import Turn, turn_of
from .sizes import rows_at_once

if TYPE_CHECKING:
    from ..head import Head, HeadLoss


class Output(NamedTuple):
    """`logits`: (batch, time, padded vocabulary). `layers`: float32 (layers, 2), without a gradient: mean square and largest
    magnitude of the residual stream behind each block; what is not finite there shows. One row, the last block's, where layers
    are not watched. `nonfinite`: float64, how many elements of these streams are not finite; None where they are not counted.
    `loss` instead of `logits`: where the caller brought a head of its own."""

    logits: torch.Tensor | None
    layers: torch.Tensor
    nonfinite: torch.Tensor | None = None
    loss: HeadLoss | None = None


class BlockLayers(nn.Module):
    """What both kinds of block are made of, under the same parameter names."""

    def __init__(self, model: Model, watched: bool) -> None:
        super().__init__()
        self.watched, self.dropout = watched, model.dropout
        self.norm_attention = norm(model)
        self.attention = Attention(model)
        self.norm_mlp = norm(model)
        self.mlp = FeedForward(model)


class Block(BlockLayers):
    """(batch, time, width) → the same shape, and its row of `Output.layers` if it is watched."""

    def forward(self, x: torch.Tensor, turn: Turn | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = x + F.dropout(self.attention(self.norm_attention(x), turn), self.dropout, self.training)
        x = x + F.dropout(self.mlp(self.norm_mlp(x)), self.dropout, self.training)
        return x, magnitudes(x.detach()) if self.watched else None


class FusedBlock(BlockLayers):
    """The same on our own kernels: each norm adds the branch before it to the stream, and measures the sum, in one pass.

    (stream, branch not added yet, or None) → the same two behind this block, and the statistics of the incoming stream with its
    branch.
    """

    def forward(
        self, x: torch.Tensor, branch: torch.Tensor | None, turn: Turn | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        normed, x, statistics = fused.norm_of_sum(self.norm_attention, x, branch)
        branch = F.dropout(self.attention(normed, turn), self.dropout, self.training)
        normed, x, _ = fused.norm_of_sum(self.norm_mlp, x, branch)
        return x, F.dropout(self.mlp(normed), self.dropout, self.training), statistics


class GPT(nn.Module):
    """Tokens (batch, time) int64, time up to data.seq_len → Output. `fused`: on our own kernels (trainer.fused); parameters and
    their names are the same.

    A tied head is no parameter of its own but the embedding's matrix used twice: sharing one parameter between two modules
    does not survive building on the meta device and sharding.
    """

    def __init__(self, config: Config, padded: int, fused: bool = False) -> None:
        super().__init__()
        model, self.fused, self.watched = config.model, fused, config.telemetry.layers
        self.model, self.shrink, self.longest = model, config.stability.embedding_grad_shrink, config.data.seq_len
        self.rows_at_once = partial(rows_at_once, config, padded)
        self.embed = nn.Embedding(padded, model.width)
        self.norm_embedding = layer_norm(model) if model.embedding_norm else None
        self.place = nn.Embedding(config.data.seq_len, model.width) if model.positions == "learned" else None
        last, kind = model.layers - 1, FusedBlock if fused else Block
        self.blocks = nn.ModuleList(kind(model, self.watched or n == last) for n in range(model.layers))
        self.norm = norm(model)
        self.head = None if model.tied_head else nn.Linear(model.width, padded, bias=False)

    def forward(self, tokens: torch.Tensor, head: Head | None = None) -> Output:
        """`head` takes what comes behind the last norm, and the head's weight, instead of the product that makes the logits."""
        x = shrink_gradient(self.embed(tokens), self.shrink)
        if self.norm_embedding is not None:
            x = self.norm_embedding(x)
        turn = None
        if self.place is not None:
            x = x + self.place.weight[: tokens.shape[1]]
        else:
            turn = turn_of(tokens.shape[1], self.model.head_size, self.model.rotary_base, tokens.device)
        x = F.dropout(x, self.model.dropout, self.training)
        normed, layers, nonfinite = self._through_fused(x, turn) if self.fused else self._through(x, turn)
        weight = self.embed.weight if self.head is None else self.head.weight
        if head is not None:
            return Output(None, layers, nonfinite, head(normed, weight))
        return Output(F.linear(normed, weight), layers, nonfinite)

    def _through(self, x: torch.Tensor, turn: Turn | None) -> tuple[torch.Tensor, torch.Tensor, None]:
        """What comes behind the last norm; and of the streams, as in Output."""
        rows = []
        for block in self.blocks:
            x, row = block(x, turn)
            if row is not None:
                rows.append(row)
        return self.norm(x), torch.stack(rows), None

    def _through_fused(self, x: torch.Tensor, turn: Turn | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same. A block measures its input, so each row comes from the next block, and the last from the final norm."""
        rows, branch = [], None
        for block in self.blocks:
            x, branch, row = block(x, branch, turn)
            rows.append(row)
        normed, x, row = fused.norm_of_sum(self.norm, x, branch)
        statistics = torch.stack([*rows[1:], row] if self.watched else [row])
        squares, largest, nonfinite = statistics.unbind(1)
        return normed, torch.stack((squares / x.numel(), largest), dim=1).float(), nonfinite.sum()


def build_model(config: Config, padded: int, fused: bool = False) -> GPT:
    """The model on the meta device: shapes without memory. `trainer.parallel.shard` gives each rank its part, with weights."""
    with torch.device("meta"):
        return GPT(config, padded, fused)


def magnitudes(x: torch.Tensor) -> torch.Tensor:
    """float32 [mean square, largest magnitude]. Two passes, and nothing of x's size is written; NaN and infinity come through.

    The fastest of the forms tried, on a CPU too: 45 µs for 131 thousand float32, an infinity norm alone takes 380.
    """
    root = torch.linalg.vector_norm(x, 2, dtype=torch.float32)
    low, high = x.aminmax()
    return torch.stack((root.square() / x.numel(), torch.maximum(-low, high).float()))


def shrink_gradient(x: torch.Tensor, share: float) -> torch.Tensor:
    """x, of whose gradient only this share goes back (GLM-130B, Zeng et al. 2022: x·share + detached x·(1 − share), here in the
    form that leaves x as it is to the bit). A tied head's part of the embedding's gradient is not shrunk."""
    if share == 1.0:
        return x
    held = x.detach()
    return held + share * (x - held)
