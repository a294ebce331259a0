"""Sizes of parameters as models have them, for the benches of what goes through all of them."""

from __future__ import annotations

import torch


def gpt(layers: int, width: int, vocabulary: int, context: int) -> list[int]:
    """GPT-2's parameters in elements: 148 tensors for its 124M."""
    block = [width, width, 3 * width * width, 3 * width, width * width, width]
    block += [width, width, 4 * width * width, 4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width, *(block * layers), width, width]


SMALL = "2000 of 768"


def cases_of(device: torch.device) -> dict[str, list[int]]:
    """A model small enough for the device, and many small tensors, where launches and tables cost more than memory does."""
    if device.type == "cpu":
        return {"GPT-2 of 4 layers, 27M": gpt(4, 384, 50304, 1024), SMALL: [768] * 2000}
    return {"GPT-2 124M": gpt(12, 768, 50304, 1024), "GPT-2 XL 1.6B": gpt(48, 1600, 50304, 1024), SMALL: [768] * 2000}


def goal_of(shape: str) -> float | None:
    return None if shape == SMALL else 0.9
