"""Lists of tensors as an optimizer has them, and what AdamW and its statistics are in float64, written out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

CHUNK = 8192  # csrc/chunks.h
BLOCK = 1024  # csrc/cpu/lanes.h
# Around every boundary there is: lanes, blocks, chunks, and the four that a GPU's thread loads at once.
SIZES = (1, 3, 4, 5, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 1029)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Which of the two, is a matter of the version of torch. The sentence is asked for beside it.
REFUSAL = (ValueError, RuntimeError)
DEFAULTS = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "grad_factor": 1.0, "gate": 0.0}


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Torch's, inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def drawn(size: int, seed: int, device: torch.device, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    """The same numbers on every device."""
    draws = torch.Generator().manual_seed(1000 * seed + size)
    return (torch.randn(size, generator=draws) * scale).to(dtype).to(device)


def drawn_each(
    sizes: tuple[int, ...], seed: int, device: torch.device, dtype: torch.dtype = torch.float32, scale: float = 1.0
) -> list[torch.Tensor]:
    """Tensors of these sizes, each in memory of its own."""
    return [part.clone() for part in drawn(sum(sizes), seed, device, dtype, scale).split(list(sizes))]


def shifted(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """The same values at an address that is `elements` elements off."""
    room = torch.zeros(tensor.numel() + elements, dtype=tensor.dtype, device=tensor.device)
    view = room[elements:]
    view.copy_(tensor)
    assert view.is_contiguous()
    assert view.data_ptr() % 16 == elements * tensor.element_size() % 16
    return view


def control(device: torch.device, **changed: float) -> torch.Tensor:
    return torch.tensor(list((DEFAULTS | changed).values()), dtype=torch.float64, device=device)


@dataclass
class OptimizerState:
    """Everything that a step reads or changes."""

    params: list[torch.Tensor]
    grads: list[torch.Tensor]
    firsts: list[torch.Tensor]
    seconds: list[torch.Tensor]
    step: torch.Tensor
    decays: list[float]

    @property
    def changeable(self) -> list[torch.Tensor]:
        return [*self.params, *self.firsts, *self.seconds, self.step]

    def arguments(self, settings: torch.Tensor) -> tuple[object, ...]:
        return self.params, self.grads, self.firsts, self.seconds, self.step, settings, self.decays

    def copy(self) -> OptimizerState:
        lists = [[tensor.clone() for tensor in tensors] for tensors in (self.params, self.grads, self.firsts, self.seconds)]
        return OptimizerState(*lists, self.step.clone(), list(self.decays))


def optimizer_state(
    device: torch.device, sizes: tuple[int, ...] = SIZES, grad_dtype: torch.dtype = torch.float32, step: int = 3
) -> OptimizerState:
    """In the middle of a training: moments that some gradients have made, every other tensor without decay."""
    return OptimizerState(
        params=drawn_each(sizes, 2, device),
        grads=drawn_each(sizes, 1, device, grad_dtype, 0.1),
        firsts=drawn_each(sizes, 3, device, scale=0.05),
        seconds=[root.square() for root in drawn_each(sizes, 4, device, scale=0.05)],
        step=torch.tensor(float(step), device=device),
        decays=[float(number % 2 == 0) for number in range(len(sizes))],
    )


def bytes_of(tensors: list[torch.Tensor]) -> list[bytes]:
    """The memory itself: NaN is not equal to itself, and 0.0 is equal to -0.0."""
    return [tensor.detach().reshape(-1).view(torch.uint8).cpu().numpy().tobytes() for tensor in tensors]


def stepped_in_double(before: OptimizerState, **changed: float) -> OptimizerState:
    """One update in float64 from the same numbers, by the formulas of the paper."""
    settings = DEFAULTS | changed
    number = float(before.step) + 1
    unbias_first, unbias_second = 1 - settings["beta1"] ** number, 1 - settings["beta2"] ** number
    sizes = [param.numel() for param in before.params]
    param, grad, first, second = (joined(one) for one in (before.params, before.grads, before.firsts, before.seconds))
    decay = torch.tensor(before.decays, dtype=torch.float64).repeat_interleave(torch.tensor(sizes)).to(param.device)
    gradient = grad * settings["grad_factor"]
    new_first = settings["beta1"] * first + (1 - settings["beta1"]) * gradient
    new_second = settings["beta2"] * second + (1 - settings["beta2"]) * gradient**2
    kept = param * (1 - settings["lr"] * settings["weight_decay"] * decay)
    new_param = kept - settings["lr"] * (new_first / unbias_first) / ((new_second / unbias_second).sqrt() + settings["eps"])
    params, firsts, seconds = (list(one.split(sizes)) for one in (new_param, new_first, new_second))
    return OptimizerState(params, before.grads, firsts, seconds, before.step + 1, before.decays)


def joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors]).double()


def step_stats_in_double(before: OptimizerState, after: OptimizerState) -> torch.Tensor:
    """What adamw_step returns, from what stood in memory before and stands there now."""
    rows = []
    for old, new, second in zip(before.params, after.params, after.seconds, strict=True):
        largest = second.max() if second.numel() else torch.zeros((), device=second.device)
        sums = [values.double().square().sum() for values in (new - old, new, second)]
        rows.append(torch.stack([*sums, largest.double()]))
    return torch.stack(rows)


def grad_stats_in_double(grads: list[torch.Tensor], inv_scale: float) -> torch.Tensor:
    """What grad_stats returns, of float32 products."""
    rows = []
    for grad in grads:
        values = (grad.float() * inv_scale).double()
        largest = values.abs().max() if values.numel() else torch.zeros((), dtype=torch.float64, device=grad.device)
        rows.append(torch.stack([values.square().sum(), largest, (~torch.isfinite(values)).sum().double()]))
    return torch.stack(rows)
