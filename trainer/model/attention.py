"""Causal self-attention: multi-head, or with keys and values shared by groups of queries."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ..config.sections import Model
from .norms import head_norm
from .rotary import Turn, turned


class Attention(nn.Module):
    """(batch, time, width) → the same shape.

    Rows of `qkv.weight`: those of all queries, head after head, then of all keys, then of all values:
    (heads + 2·key_heads) · head_size in all. Its transpose is GPT-2's `c_attn`. `out` takes the heads one after another.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.head_size, self.heads, self.key_heads = model.head_size, model.heads, model.key_heads
        self.split_scale, self.fp32_softmax = model.split_attention_scale, model.fp32_softmax
        self.qkv = nn.Linear(model.width, (model.heads + 2 * model.key_heads) * model.head_size, bias=model.bias)
        self.norm_query = head_norm(model) if model.qk_norm else None
        self.norm_key = head_norm(model) if model.qk_norm else None
        self.out = nn.Linear(model.width, model.width, bias=model.bias)

    def forward(self, x: torch.Tensor, turn: Turn | None) -> torch.Tensor:
        batch, time, width = x.shape
        heads = self.qkv(x).view(batch, time, -1, self.head_size).transpose(1, 2)
        query, key, value = heads.split((self.heads, self.key_heads, self.key_heads), dim=1)
        if self.norm_query is not None and self.norm_key is not None:
            query, key = self.norm_query(query), self.norm_key(key)
        if turn is not None:
            query, key = turned(query, turn), turned(key, turn)
        scale = self.head_size**-0.5
        if self.split_scale:
            # A kernel that keeps fp16 scores can overflow before it scales them; this way it cannot.
            query, key, scale = query * scale**0.5, key * scale**0.5, 1.0
        if self.fp32_softmax:
            mixed = exact_attention(query, key, value, scale)
        else:
            grouped = self.key_heads != self.heads
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=grouped)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


def exact_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Causal attention whose scores and softmax are float32 (GLM-130B, Zeng et al. 2022). Holds the whole matrix of scores.

    query (batch, heads, time, head_size), key and value with a divisor of the heads → like query, in the type of value.
    """
    time, groups = query.shape[2], query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query.float() @ key.float().transpose(-2, -1) * scale
    future = torch.ones(time, time, dtype=torch.bool, device=query.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(dim=-1).to(value.dtype) @ value
