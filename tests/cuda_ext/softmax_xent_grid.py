"""What softmax_xent is tried on, on every device, and how near to float64 it must come."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from cuda_ext.ops.softmax_xent import softmax_xent_op
from cuda_ext.reference import softmax_xent as reference
from cuda_ext.reference.softmax_xent import of_rows

Op = Callable[..., tuple[Tensor, ...]]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# A vocabulary of one, fewer than 16 bytes, odd ones, bytes, one that ends a vector early, GPT-2's unpadded.
SHAPES = ((1, 1), (3, 1), (5, 2), (4, 7), (1, 9), (17, 33), (64, 256), (9, 1000), (5, 4097), (3, 50257))
CASES = [
    (dtype, *shape, z_loss)
    for dtype, shape, z_loss in itertools.product(DTYPES, SHAPES, (0.0, 1e-2))
    if z_loss == 0 or shape[1] < 5000
]
IGNORED = -100
# Of the gradient: one rounding to the dtype, and in float32 what exp and a sum of V of them lose.
RELATIVE = {torch.float32: 2e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10}
SMALLEST = {torch.float32: 1e-9, torch.bfloat16: 1e-9, torch.float16: 2**-24}


@pytest.fixture(params=["torch", "cpu"])
def op(request: pytest.FixtureRequest) -> Op:
    """The op without and with the library of the CPU."""
    if request.param == "torch":
        return reference.softmax_xent
    request.getfixturevalue("cpu_library")
    return softmax_xent_op


@dataclass(frozen=True)
class Case:
    logits: Tensor
    targets: Tensor
    weight: Tensor
    expected: Tensor
    z_loss: float

    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, float, int]:
        return self.logits, self.targets, self.weight, self.expected, self.z_loss, IGNORED


def make_case(dtype: torch.dtype, rows: int, columns: int, z_loss: float = 0.0, device: str = "cpu", seed: int = 7) -> Case:
    """Logits as a model has them, one row flat and one sharp; every third target ignored."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, columns, generator=random) * 3
    logits[rows // 2] *= 8
    logits[-1] = 1.5
    targets = torch.randint(columns, (rows,), generator=random)
    targets[1::3] = IGNORED
    weight, expected = torch.tensor(1 / rows), torch.tensor(2.0)
    return Case(logits.to(dtype).to(device), targets.to(device), weight.to(device), expected.to(device), z_loss)


def check(results: tuple[Tensor, ...], case: Case) -> None:
    """Raises AssertionError unless the op's results are those of float64."""
    total, losses, lse, dlogits, stats, mean = (result.cpu() for result in results)
    logits, targets, weight, expected = (value.cpu() for value in case.arguments()[:4])
    wide = logits.double()
    want_losses, want_lse, want_dlogits = of_rows(wide, targets, weight.double(), expected.double(), case.z_loss, IGNORED)
    counted = targets != IGNORED
    ce, squares = want_losses[counted].sum(), want_lse[counted].square().sum()
    assert (total.dtype, losses.dtype, lse.dtype, stats.dtype) == (torch.float32,) * 3 + (torch.float64,)
    assert dlogits.dtype == logits.dtype
    near(losses, want_losses, 2e-6, 4e-6)
    near(lse, want_lse, 2e-6, 4e-6)
    near(mean, ce / counted.sum().clamp(min=1), 4e-6, 4e-6)
    near(total, weight.double() * (ce + case.z_loss * squares), 4e-6, 4e-6)
    near(dlogits, want_dlogits, RELATIVE[dlogits.dtype], SMALLEST[dlogits.dtype] + 4e-7 * abs(float(weight * expected)))
    outside = counted & ((targets < 0) | (targets >= logits.shape[1]))
    near(stats, torch.stack([wide.amax(), (~wide.isfinite()).sum() + outside.sum(), ce, squares]), 4e-6, 4e-5)


def near(got: Tensor, want: Tensor, relative: float, absolute: float) -> None:
    torch.testing.assert_close(got.double(), want, rtol=relative, atol=absolute, equal_nan=True)


def with_odd_values(dtype: torch.dtype, columns: int, device: str = "cpu") -> Case:
    """A row each: sound, NaN, +inf, -inf among others, nothing but -inf, a target past the end, one below 0, an ignored NaN."""
    case = make_case(dtype, 8, columns, 1e-3, device)
    case.targets.copy_(torch.tensor([0, 1, 0, 1, 0, columns, -1, IGNORED]))
    case.logits[1, columns - 1] = torch.nan
    case.logits[2, columns // 2] = torch.inf
    case.logits[3, 0] = -torch.inf
    case.logits[4] = -torch.inf
    case.logits[7, 0] = torch.nan
    return case
