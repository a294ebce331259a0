"""What add_norm is tried on, on every device, and how near to float64 it must come."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import cuda_ext.ops.add_norm  # noqa: F401  declares the ops
from cuda_ext.reference import add_norm as reference

Ops = tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor, ...]]]
# Of x and residual, of weight and bias.
DTYPES = (
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float16),
    (torch.float16, torch.float32),
)
# Rows and width: one element, fewer than a vector, odd, a few of each way a kernel holds a row, and more rows than parts.
SHAPES = ((1, 1), (3, 5), (7, 16), (130, 33), (40, 256), (9, 264), (33, 768), (2, 769), (35, 1024), (5, 1280))
LONG = ((3, 4096), (3, 4097), (2, 8200), (3, 16384), (2, 16392))  # more than a warp or a block of a GPU holds
KINDS = tuple(itertools.product((True, False), repeat=3))  # with a residual, with a bias, RMSNorm
CASES = [
    (*dtypes, *shape, *kind)
    for dtypes, shape, kind in itertools.product(DTYPES, SHAPES + LONG, KINDS)
    if shape in SHAPES[:6] or (kind[0] and kind[1] != kind[2])  # of the others LayerNorm with and RMSNorm without a bias
]
UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}  # what one rounding may take of a number
SMALLEST = {torch.float32: 0.0, torch.bfloat16: 0.0, torch.float16: 2.0**-24}
EPS = 1e-5


@pytest.fixture(params=["torch", "cpu"])
def ops(request: pytest.FixtureRequest) -> Ops:
    """Forward and backward, without and with the library of the CPU."""
    if request.param == "torch":
        return reference.add_norm, reference.add_norm_backward
    request.getfixturevalue("cpu_library")
    return registered()


def registered() -> Ops:
    return torch.ops.sentinel.add_norm.default, torch.ops.sentinel.add_norm_backward.default


@dataclass(frozen=True)
class Case:
    x: Tensor
    residual: Tensor | None
    weight: Tensor
    bias: Tensor | None
    rms: bool
    dy: Tensor
    dh: Tensor | None

    def forward(self) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, float, bool]:
        return self.x, self.residual, self.weight, self.bias, EPS, self.rms

    def backward(self, results: tuple[Tensor, ...]) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor, bool, bool]:
        _, h, mean, rstd, _ = results
        stored = self.x if self.residual is None else h
        return self.dy, self.dh, stored, self.weight, mean, rstd, self.rms, self.bias is not None


def make_case(
    dtype: torch.dtype,
    of_weight: torch.dtype,
    rows: int,
    width: int,
    has_residual: bool = True,
    has_bias: bool = True,
    rms: bool = False,
    device: str = "cpu",
) -> Case:
    """Rows that are not centred, of which one is large and one constant."""
    random = torch.Generator().manual_seed(rows * 100_003 + width)

    def drawn(*shape: int, like: torch.dtype) -> Tensor:
        return torch.randn(*shape, generator=random).to(like)

    x = drawn(rows, width, like=dtype) + 1
    x[rows // 2] *= 50
    x[-1] = 0.5
    residual = drawn(rows, width, like=dtype) if has_residual else None
    weight, bias = 1 + drawn(width, like=of_weight) / 8, drawn(width, like=of_weight) if has_bias else None
    dy, dh = drawn(rows, width, like=dtype), drawn(rows, width, like=dtype) if has_residual else None
    put = [None if tensor is None else tensor.to(device) for tensor in (x, residual, weight, bias, dy, dh)]
    return Case(put[0], put[1], put[2], put[3], rms, put[4], put[5])  # type: ignore[arg-type]


def askew(case: Case) -> Case:
    """The same, each tensor one element behind an address where a vector may begin."""

    def moved(tensor: Tensor) -> Tensor:
        place = tensor.new_empty(tensor.numel() + 1)[1:]
        return place.copy_(tensor.flatten()).view_as(tensor)

    return Case(*(moved(one) if isinstance(one, Tensor) else one for one in vars(case).values()))


def near(found: Tensor, wanted: Tensor, scale: Tensor | float, roundings: float) -> None:
    """One rounding to its dtype, and so many of float32 at the scale of what was summed."""
    bound = UNIT[found.dtype] * wanted.abs() + SMALLEST[found.dtype] + roundings * UNIT[torch.float32] * scale
    away = (found.double().cpu() - wanted).abs()
    assert bool((away <= bound).all()), f"{(away - bound).max().item():.3g} beyond the bound, of {wanted.abs().max().item():.3g}"


def check(forward: tuple[Tensor, ...], backward: tuple[Tensor, ...], case: Case) -> None:
    """Raises AssertionError unless results and gradients are those of float64, by autograd, of h as it is stored."""
    x, residual, weight, bias, dy, dh = (
        None if tensor is None else tensor.cpu() for tensor in (case.x, case.residual, case.weight, case.bias, case.dy, case.dh)
    )
    assert x is not None
    assert weight is not None
    assert dy is not None
    stored = x if residual is None else x + residual
    wide, scale, shift = (None if tensor is None else tensor.double().requires_grad_() for tensor in (stored, weight, bias))
    assert wide is not None
    assert scale is not None
    y, h, mean, rstd, stats = forward
    dx, dweight, dbias = backward
    average = torch.zeros(len(x), 1).double() if case.rms else wide.mean(1, keepdim=True)
    spread = ((wide - average).square().mean(1, keepdim=True) + EPS).rsqrt()
    normed = (wide - average) * spread
    out = normed * scale + (0 if shift is None else shift)
    wanted = torch.autograd.grad((out * dy.double()).sum(), [wide, scale] + ([] if shift is None else [shift]))

    assert [tensor.dtype for tensor in (y, h, mean, rstd, stats)] == [x.dtype] * 2 + [torch.float32] * 2 + [torch.float64]
    assert [tensor.dtype for tensor in backward] == [x.dtype, weight.dtype, weight.dtype]
    assert y.shape == x.shape
    if residual is None:
        assert h.shape == (0,)
    else:
        assert torch.equal(h.cpu(), stored)
    with torch.no_grad():
        # What a mean may be off by, in units of a row's spread: more where a row is far from zero and nearly constant.
        off = (average.abs() + wide.abs().amax(1, keepdim=True)) * spread
        size = normed.abs() + off
        assert mean.shape == ((0,) if case.rms else (len(x),))
        if not case.rms:
            near(mean, average[:, 0], wide.abs().mean(1), 4)
        near(rstd, spread[:, 0], spread[:, 0] * (1 + off[:, 0]), 8)
        near(y, out, size * (scale.abs() + 1) + out.abs(), 8)
        near(dx, wanted[0] + (0 if dh is None else dh.double()), backward_size(dy, scale, normed, size, spread) + 1, 16)
        near(dweight, wanted[1], (dy.double().abs() * size).sum(0), 16)
        near(dbias, wanted[2] if shift is not None else torch.zeros(0).double(), dy.double().abs().sum(0)[: dbias.numel()], 16)
        expected_stats = torch.stack([stored.double().square().sum(), stored.abs().amax().double(), torch.zeros(()).double()])
        torch.testing.assert_close(stats.cpu(), expected_stats, rtol=1e-5, atol=0)  # squares of a row are summed in float32


def backward_size(dy: Tensor, scale: Tensor, normed: Tensor, size: Tensor, spread: Tensor) -> Tensor:
    """What is added and taken away on the way to dx."""
    g = (dy.double() * scale).abs()
    return (g + g.mean(1, keepdim=True) + size * (g * size).mean(1, keepdim=True) * (1 + normed.abs())) * spread


def odd_values(device: str = "cpu", dtype: torch.dtype = torch.float32, width: int = 40) -> Case:
    """A NaN in row 1, infinity in row 3, both and minus infinity in row 5."""
    case = make_case(dtype, dtype, 7, width, has_bias=False, device=device)
    case.x[1, 2] = float("nan")
    case.x[3, width - 1] = float("inf")
    case.x[5, 0], case.x[5, 7], case.x[5, 8] = float("nan"), float("-inf"), float("inf")
    return case
