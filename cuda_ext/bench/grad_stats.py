"""Cases of grad_stats: the gradients of GPT-2 124M and of a 1.5B model, and thousands of small ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .harness import Case

SMALL = "2000 of 768"


def cases(device: torch.device, few: bool = False) -> Iterable[Case]:
    for name, sizes in cases_of(device, few).items():
        for dtype in (torch.float32, torch.bfloat16):
            yield _case(name, sizes, dtype, device)


def _case(name: str, sizes: list[int], dtype: torch.dtype, device: torch.device) -> Case:
    grads = [torch.randn(size, device=device).to(dtype) for size in sizes]
    one = torch.ones((), device=device)
    return Case(
        op="grad_stats",
        shape=name,
        dtype=str(dtype).removeprefix("torch."),
        moved_bytes=sum(grad.nbytes for grad in grads),
        ours=lambda ops: ops.grad_stats(grads, one),
        peers={"torch, norm alone": lambda: norm_alone(grads), "torch, norm and count": lambda: norm_and_count(grads)},
        goal=goal_of(name),
        is_bare_too=False,
    )


def norm_alone(grads: list[torch.Tensor]) -> torch.Tensor:
    """What torch's own clipping measures: no other statistics."""
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    return norm


def norm_and_count(grads: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """A sum of squares that cannot overflow, and how many elements are not finite: what the trainer did without the op."""
    squares = torch.stack(torch._foreach_norm(grads, 2, torch.float64)).square()
    return squares, torch.stack([(grad - grad).ne_(0).sum() for grad in grads])


def gpt(layers: int, width: int, vocabulary: int, context: int) -> list[int]:
    """GPT-2's parameters in elements: 148 tensors for its 124M."""
    block = [width, width, 3 * width * width, 3 * width, width * width, width]
    block += [width, width, 4 * width * width, 4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width, *(block * layers), width, width]


def cases_of(device: torch.device, few: bool = False) -> dict[str, list[int]]:
    """A model small enough for the device, and many small tensors, where launches and tables cost more than memory does. `few`:
    models alone."""
    if device.type == "cpu":
        models = {"GPT-2 of 4 layers, 27M": gpt(4, 384, 50304, 1024)}
    else:
        models = {"GPT-2 124M": gpt(12, 768, 50304, 1024), "GPT-2 XL 1.6B": gpt(48, 1600, 50304, 1024)}
    return models if few else models | {SMALL: [768] * 2000}


def goal_of(shape: str) -> float | None:
    return None if shape == SMALL else 0.9
