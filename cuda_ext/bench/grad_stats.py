"""Cases of grad_stats: the gradients of GPT-2 124M and of a 1.5B model, and thousands of small ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from cuda_ext.bench.harness import Case
from cuda_ext.bench.parameters import cases_of, goal_of


def cases(device: torch.device) -> Iterable[Case]:
    for name, sizes in cases_of(device).items():
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
    """What torch's own clipping measures: nothing else is told."""
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    return norm


def norm_and_count(grads: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """A sum of squares that cannot overflow, and how many elements are not finite: what the trainer did without the op."""
    squares = torch.stack(torch._foreach_norm(grads, 2, torch.float64)).square()
    return squares, torch.stack([(grad - grad).ne_(0).sum() for grad in grads])
