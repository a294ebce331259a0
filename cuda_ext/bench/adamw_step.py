"""Cases of adamw_step: alone, and with grad_stats before it, the pair that an update is: 32 bytes a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .grad_stats import cases_of, goal_of, norm_and_count
from .harness import Case, Way

CONTROL = [1e-4, 0.9, 0.95, 1e-8, 0.1, 1.0, 0.0]
ALONE, PAIR = 28, 32  # bytes a parameter


@dataclass(frozen=True)
class State:
    """An optimizer's tensors. Every way of a case works on the same ones: no time depends on their values."""

    params: list[torch.Tensor]
    grads: list[torch.Tensor]
    firsts: list[torch.Tensor]
    seconds: list[torch.Tensor]
    step: torch.Tensor
    control: torch.Tensor
    one: torch.Tensor

    @classmethod
    def drawn(cls, sizes: list[int], device: torch.device) -> State:
        params, grads, firsts, roots = ([torch.randn(size, device=device) for size in sizes] for _ in range(4))
        control = torch.tensor(CONTROL, dtype=torch.float64, device=device)
        step, one = (torch.ones((), device=device) for _ in range(2))
        return cls(params, grads, firsts, [root.square_() for root in roots], step, control, one)

    def step_with(self, ops: Any) -> torch.Tensor:
        stats: torch.Tensor = ops.adamw_step(
            self.params, self.grads, self.firsts, self.seconds, self.step, self.control, [1.0] * len(self.params)
        )
        return stats


def cases(device: torch.device, few: bool = False) -> Iterable[Case]:
    for name, sizes in cases_of(device, few).items():
        state, elements = State.drawn(sizes, device), sum(sizes)
        step, step_and_copies = fused(state, is_measured=False), fused(state, is_measured=True)
        yield Case(
            op="adamw_step",
            shape=name,
            dtype="float32",
            moved_bytes=ALONE * elements,
            ours=state.step_with,
            peers={"torch fused": step, "torch fused, update measured": step_and_copies},
            goal=goal_of(name),
        )
        yield Case(
            op="grad_stats + adamw_step",
            shape=name,
            dtype="float32",
            moved_bytes=PAIR * elements,
            ours=lambda ops, state=state: (ops.grad_stats(state.grads, state.one), state.step_with(ops)),  # type: ignore[misc]
            peers={"torch": lambda state=state, way=step_and_copies: (norm_and_count(state.grads), way())},  # type: ignore[misc]
            goal=goal_of(name),
            is_bare_too=False,
        )


def fused(state: State, is_measured: bool) -> Way:
    """torch's fused AdamW with its scale and gate, on the same memory. Measured: with a copy of the parameters before, the only
    way to the update's norm."""
    parameters = [torch.nn.Parameter(param) for param in state.params]
    lr, beta1, beta2, eps, weight_decay, _, _ = CONTROL
    optimizer = torch.optim.AdamW(parameters, lr, (beta1, beta2), eps, weight_decay, fused=True)
    for parameter, grad, first, second in zip(parameters, state.grads, state.firsts, state.seconds, strict=True):
        parameter.grad = grad
        optimizer.state[parameter] = {"step": torch.ones_like(state.step), "exp_avg": first, "exp_avg_sq": second}
    optimizer.grad_scale, optimizer.found_inf = torch.ones_like(state.step), torch.zeros_like(state.step)  # type: ignore[attr-defined]
    if not is_measured:
        return optimizer.step
    before = [torch.empty_like(param) for param in state.params]

    @torch.no_grad()
    def step() -> list[torch.Tensor]:
        torch._foreach_copy_(before, state.params)
        optimizer.step()
        torch._foreach_sub_(before, state.params)
        largest = torch.stack([second.amax() for second in state.seconds])
        return [*torch._foreach_norm(before), *torch._foreach_norm(state.params), *torch._foreach_norm(state.seconds), largest]

    return step
