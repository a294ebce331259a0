"""Rotary positions (Su et al. 2021): queries and keys are turned by angles that grow with their place in the sequence.

Element i of a head is paired with element i + half, as in Llama's and GPT-NeoX's weights (the paper pairs neighbours; that is
the same model with the rows of query and key in another order).
"""

from __future__ import annotations

import torch

Turn = tuple[torch.Tensor, torch.Tensor]


def turn_of(time: int, head_size: int, base: float, device: torch.device) -> Turn:
    """Cosines and sines, each float32 (time, head_size / 2). In float32 always: bfloat16 cannot distinguish position 1000 from
    1001."""
    speeds = base ** (-torch.arange(0, head_size, 2, dtype=torch.float32, device=device) / head_size)
    angles = torch.outer(torch.arange(time, dtype=torch.float32, device=device), speeds)
    return angles.cos(), angles.sin()


def turned(x: torch.Tensor, turn: Turn) -> torch.Tensor:
    """(batch, heads, time, head_size) → the same shape and type, computed in float32."""
    cosines, sines = turn
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1).to(x.dtype)
