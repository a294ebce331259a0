"""Causal attention by each of torch's fused kernels, forward and backward, at models' shapes, for numerics.attention.

    python -m tests.bench.attention_speed [--record FILE] [--rounds 10]

In turns in one process. Each shape is printed and recorded as soon as it is measured. A CPU has one kernel, and small shapes: a
rehearsal.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuda_ext.bench import record
from cuda_ext.bench.harness import Timer

FLASH = {"FlashAttention": SDPBackend.FLASH_ATTENTION}
KERNELS = {
    "cuda": {"cuDNN": SDPBackend.CUDNN_ATTENTION, **FLASH, "efficient": SDPBackend.EFFICIENT_ATTENTION},
    "cpu": FLASH,
}
# (sequences, heads, time, head size): GPT-2 124M and XL at their micro-batches, Llama 8B at its context.
SHAPES = {"cuda": ((64, 12, 1024, 64), (8, 25, 1024, 64), (2, 32, 8192, 128)), "cpu": ((2, 2, 64, 32),)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for shape in SHAPES[device.type]:
        found = measured(shape, device, given.rounds)
        name = " x ".join(map(str, shape))
        print(f"attention {name} bfloat16, forward and backward: {found}", flush=True)
        if given.record is not None:
            record.write(given.record, {}, {"attention": {name: found}})


def measured(shape: tuple[int, int, int, int], device: torch.device, rounds: int) -> dict[str, Any]:
    """Kernel → {"ms", "tflops"} of forward and backward, or {"failed"}."""
    batch, heads, time, size = shape
    # As the trainer has them: heads side by side in one product, seen from the side.
    whole = torch.randn(batch, time, 3 * heads, size, device=device, dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
    timer, ways, found = Timer(device), {}, {}
    for name, kernel in KERNELS[device.type].items():
        way = attending(whole, heads, kernel)
        try:
            ways[name] = (way, timer.calls_for(way))
        except RuntimeError as error:  # a kernel that this GPU or this shape has not
            found[name] = {"failed": str(error).strip().splitlines()[0]}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            way, calls = ways[name]
            times[name].append(timer.time(way, calls))
    operations = 3.5 * 4 * batch * heads * time * time * size / 2  # two products forward, five backward, half of them masked
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        found[name] = {"ms": round(middle * 1e3, 4), "tflops": round(operations / middle / 1e12, 1)}
    return found


def attending(whole: torch.Tensor, heads: int, kernel: SDPBackend) -> Callable[[], None]:
    grad = None

    def step() -> None:
        nonlocal grad
        query, key, value = whole.split(heads, dim=1)
        with sdpa_kernel(kernel):
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        grad = torch.randn_like(mixed) if grad is None else grad
        torch.autograd.grad(mixed, whole, grad)

    return step


if __name__ == "__main__":
    main()
