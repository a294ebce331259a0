"""A plain GPT over bytes: pre-norm blocks, learned positions, squared-ReLU, an untied head."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from trainer.config.sections import Model

INITIAL_STD = 0.02  # GPT-2; residual outputs are scaled down by the depth on top of it


class Block(nn.Module):
    """(batch, time, width) → the same shape."""

    def __init__(self, shape: Model) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_attention = nn.LayerNorm(shape.width, bias=False)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.attention_out = nn.Linear(shape.width, shape.width, bias=False)
        self.norm_mlp = nn.LayerNorm(shape.width, bias=False)
        self.mlp_in = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.mlp_out = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, time, width))
        # Squared ReLU: as good as GELU here and three times cheaper on a CPU (So et al. 2021, Primer).
        return x + self.mlp_out(F.relu(self.mlp_in(self.norm_mlp(x))).square())


class GPT(nn.Module):
    """Bytes (batch, time) int64 → logits (batch, time, vocabulary) and the mean square of the residual stream before the head."""

    def __init__(self, shape: Model, seq_len: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocab_size, shape.width)
        self.place = nn.Embedding(seq_len, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, shape.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                depth = 2 * shape.layers if name.endswith(("attention_out.weight", "mlp_out.weight")) else 1
                nn.init.normal_(parameter, std=INITIAL_STD / depth**0.5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        mean_square = x.detach().float().square().mean()
        return self.head(self.norm(x)), mean_square


def build_model(shape: Model, seq_len: int, seed: int) -> GPT:
    """The whole model on the CPU with weights that depend on the seed alone, never on the number of ranks."""
    torch.manual_seed(seed)
    return GPT(shape, seq_len)
