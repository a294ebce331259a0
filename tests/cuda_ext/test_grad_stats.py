"""grad_stats beside float64. The tests that take a `device` are those of tests/gpu too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from cuda_ext.ops.grad_stats import grad_stats
from cuda_ext.reference.grad_stats import grad_stats as reference
from tests.cuda_ext.many_tensors import (
    CHUNK,
    DTYPES,
    REFUSAL,
    SIZES,
    bytes_of,
    drawn,
    drawn_each,
    grad_stats_in_double,
    shifted,
    threads,
)

# Sums of float32 squares: 64 to a lane, each rounding at most half of 2^-23 and as often up as down.
CLOSE = {"rtol": 1e-6, "atol": 0.0}


@pytest.fixture
def device(cpu_library: Any) -> torch.device:
    return torch.device("cpu")


def one(device: torch.device, value: float = 1.0) -> torch.Tensor:
    return torch.tensor(value, device=device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("inv_scale", [1.0, 0.37, 2.0**-16])
def test_every_size_and_dtype_is_as_in_float64(device: torch.device, dtype: torch.dtype, inv_scale: float) -> None:
    grads = drawn_each(SIZES, 5, device, dtype)
    stats = grad_stats(grads, one(device, inv_scale))
    wanted = grad_stats_in_double(grads, inv_scale)
    assert stats.dtype == torch.float64
    assert stats.device.type == device.type
    torch.testing.assert_close(stats[:, 0], wanted[:, 0], **CLOSE)
    assert torch.equal(stats[:, 1:], wanted[:, 1:])
    torch.testing.assert_close(stats, reference(grads, one(device, inv_scale)), **CLOSE)


def test_tensors_of_several_dtypes_and_empty_ones_go_together(device: torch.device) -> None:
    grads = [drawn(size, 6, device, DTYPES[number % 3]) for number, size in enumerate((0, 5, 0, 0, CHUNK + 3, 17, 0))]
    grads[1] = grads[1].reshape(1, 5, 1)
    torch.testing.assert_close(grad_stats(grads, one(device)), grad_stats_in_double(grads, 1.0), **CLOSE)


def test_nothing_and_only_empty_ones_give_zeros(device: torch.device) -> None:
    assert grad_stats([], one(device)).shape == (0, 3)
    empty = [torch.empty(0, device=device), torch.empty(3, 0, device=device)]
    assert torch.equal(grad_stats(empty, one(device)).cpu(), torch.zeros(2, 3, dtype=torch.float64))


def test_three_thousand_tensors_are_each_told_apart(device: torch.device) -> None:
    grads = [torch.full((1 + number % 7,), float(number), device=device) for number in range(3000)]
    stats = grad_stats(grads, one(device)).cpu()
    numbers = torch.arange(3000, dtype=torch.float64)
    torch.testing.assert_close(stats[:, 0], numbers.square() * (1 + numbers % 7), rtol=3e-7, atol=0.0)
    assert torch.equal(stats[:, 1], numbers)


@pytest.mark.parametrize("place", [0, 1023, 1024, CHUNK - 1, CHUNK, 2 * CHUNK + 6])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_not_finite_is_counted_wherever_it_stands_and_in_no_other_row(
    device: torch.device, dtype: torch.dtype, place: int
) -> None:
    grads = [drawn(2 * CHUNK + 7, 7, device, dtype) for _ in range(3)]
    healthy = grad_stats(grads, one(device))
    for bad in (math.nan, math.inf, -math.inf):
        grads[1][place] = bad
        stats = grad_stats(grads, one(device))
        assert stats[1, 2] == 1
        assert torch.equal(stats[1, :2].isnan(), torch.tensor([math.isnan(bad)] * 2, device=device))
        assert torch.equal(stats[1, :2].isinf(), torch.tensor([math.isinf(bad)] * 2, device=device))
        assert torch.equal(stats[::2], healthy[::2])
    grads[1][:] = math.nan
    assert grad_stats(grads, one(device))[1, 2] == 2 * CHUNK + 7


def test_infinity_beside_nan_leaves_nan_the_largest(device: torch.device) -> None:
    grad = torch.tensor([math.inf, 1.0, math.nan, -math.inf], device=device)
    squares, largest, nonfinite = grad_stats([grad], one(device))[0].tolist()
    assert math.isnan(squares)
    assert math.isnan(largest)
    assert nonfinite == 3


@pytest.mark.parametrize("size", [1e30, 1e19, 1e-19, 1e-30, 1e-40])
def test_a_sum_of_squares_that_float32_cannot_hold_is_exact_all_the_same(device: torch.device, size: float) -> None:
    grad = drawn(CHUNK + 500, 8, device) * size
    stats = grad_stats([grad], one(device))
    torch.testing.assert_close(stats, grad_stats_in_double([grad], 1.0), rtol=1e-6, atol=0.0)
    assert stats[0, 2] == 0
    assert 0 < stats[0, 0].item() < math.inf


def test_a_single_large_number_among_small_ones_does_not_hide_in_its_own_square(device: torch.device) -> None:
    grad = torch.full((CHUNK,), 1e-3, device=device)
    grad[77] = 3e38
    assert grad_stats([grad], one(device))[0, 0].item() == pytest.approx(9e76, rel=1e-6)


def test_the_product_with_the_inverse_scale_is_what_is_counted(device: torch.device) -> None:
    """As the update will see it: rounded to float32."""
    grad = torch.full((10,), 1e30, device=device)
    assert grad_stats([grad], one(device, 1e10))[0, 2] == 10
    assert grad_stats([grad], one(device, 1e-10))[0].tolist() == pytest.approx([1e41, 1e20, 0], rel=1e-6)
    assert grad_stats([grad], one(device, math.nan))[0, 2] == 10


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("elements", [1, 2, 3, 5, 7])
def test_a_tensor_that_begins_anywhere_gives_the_same_bits(device: torch.device, dtype: torch.dtype, elements: int) -> None:
    grads = drawn_each(SIZES, 9, device, dtype)
    there = grad_stats(grads, one(device))
    assert torch.equal(there, grad_stats([shifted(grad, elements) for grad in grads], one(device)))


def test_the_same_gradients_give_the_same_bits(device: torch.device) -> None:
    grads = [drawn(20 * CHUNK + 11, 10, device), drawn(5, 10, device)]
    first = bytes_of([grad_stats(grads, one(device))])
    assert all(bytes_of([grad_stats(grads, one(device))]) == first for _ in range(5))


def test_a_gradient_of_autograd_gives_nothing_to_differentiate(device: torch.device) -> None:
    grad = torch.ones(3, device=device, requires_grad=True)
    assert not grad_stats([grad], one(device)).requires_grad


def test_torch_checks_the_op(device: torch.device) -> None:
    grads = [drawn(100, 11, device), drawn(9, 11, device, torch.bfloat16), torch.empty(0, device=device)]
    torch.library.opcheck(torch.ops.sentinel.grad_stats.default, (grads, one(device)))


def test_it_compiles_without_a_break(device: torch.device) -> None:
    grads = [drawn(100, 12, device), drawn(9, 12, device, torch.bfloat16)]
    compiled = torch.compile(lambda tensors, scale: grad_stats(tensors, scale).sum(0), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(grads, one(device)), grad_stats(grads, one(device)).sum(0))


@pytest.mark.parametrize("tier", ["op", "reference"])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, r"grad_stats: grads\[1\]: dtype float64, must be one of float32, bfloat16, float16"),
        (1, r"grad_stats: grads\[1\]: not contiguous; call .contiguous\(\) on it"),
        (2, r"grad_stats: grads\[0\]: dtype int64"),
        (3, r"grad_stats: inv_scale: dtype float64, must be one of float32"),
        (4, r"grad_stats: inv_scale: 2 elements, must be 1"),
    ],
)
def test_what_it_does_not_take_is_named(device: torch.device, tier: str, number: int, message: str) -> None:
    fine, scale = torch.ones(4, 4, device=device), one(device)
    arguments = [
        ([fine, fine.double()], scale),
        ([fine, fine[:, :2]], scale),
        ([fine.long()], scale),
        ([fine], scale.double()),
        ([fine], torch.ones(2, device=device)),
    ][number]
    with pytest.raises(REFUSAL, match=message):
        (grad_stats if tier == "op" else reference)(*arguments)


def test_the_number_of_threads_changes_no_bit(cpu_library: Any) -> None:
    grads = [drawn(size, 13, torch.device("cpu")) for size in (40 * CHUNK + 3, 7, 9 * CHUNK)]
    stats = []
    for number in (1, 2, 3):
        with threads(number):
            stats += bytes_of([grad_stats(grads, one(torch.device("cpu")))])
    assert stats[0] == stats[1] == stats[2]


def test_more_than_two_to_the_31_elements_are_counted_through(cpu_library: Any) -> None:
    """Zeros that were never written take no memory to read."""
    size = 2**31 + CHUNK + 5
    memory = np.zeros(size, dtype=np.int16)
    grad = torch.from_numpy(memory).view(torch.bfloat16)
    grad[-1], grad[2**31 + 1] = 2.0, math.inf
    assert grad_stats([grad], one(torch.device("cpu"))).tolist() == [[math.inf, math.inf, 1.0]]
    grad[2**31 + 1] = -3.0
    assert grad_stats([grad], one(torch.device("cpu"))).tolist() == [[13.0, 3.0, 0.0]]
