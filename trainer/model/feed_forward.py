"""The feed-forward half of a block."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ..config.sections import Model


class FeedForward(nn.Module):
    """(batch, time, width) → the same shape: `up`, the activation, `down`; with swiglu `up` is multiplied by SiLU of `gate`."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.activation = model.activation
        self.gate = nn.Linear(model.width, model.ffn_size, bias=model.bias) if model.activation == "swiglu" else None
        self.up = nn.Linear(model.width, model.ffn_size, bias=model.bias)
        self.down = nn.Linear(model.ffn_size, model.width, bias=model.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gate is not None:  # Shazeer 2020
            return self.down(F.silu(self.gate(x)) * self.up(x))
        inner = self.up(x)
        if self.activation == "gelu":
            return self.down(F.gelu(inner, approximate="tanh"))
        inner = F.relu(inner)
        return self.down(inner.square() if self.activation == "squared_relu" else inner)
