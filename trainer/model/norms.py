"""Norms. torch computes both in float32, whatever the precision of their input."""

from __future__ import annotations

from torch import nn

from ..config.sections import Model

EPS = 1e-5  # GPT-2's and Llama's


def layer_norm(model: Model) -> nn.LayerNorm:
    return nn.LayerNorm(model.width, eps=EPS, bias=model.bias)


def norm(model: Model) -> nn.Module:
    """The model's norm over its width. An RMS norm has no bias (Zhang and Sennrich 2019)."""
    return layer_norm(model) if model.norm == "layernorm" else nn.RMSNorm(model.width, eps=EPS)


def head_norm(model: Model) -> nn.RMSNorm:
    """Over one head's elements: of queries and keys."""
    return nn.RMSNorm(model.head_size, eps=EPS)
