"""grad_stats on a GPU: every test of the CPU over again, and what only a GPU can get wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from cuda_ext.ops.grad_stats import grad_stats
from tests.cuda_ext.many_tensors import CHUNK, REFUSAL, bytes_of, drawn, grad_stats_in_double
from tests.cuda_ext.test_grad_stats import (  # noqa: F401  collected here with this file's device
    one,
    test_a_gradient_of_autograd_gives_nothing_to_differentiate,
    test_a_single_large_number_among_small_ones_does_not_hide_in_its_own_square,
    test_a_sum_of_squares_that_float32_cannot_hold_is_exact_all_the_same,
    test_a_tensor_that_begins_anywhere_gives_the_same_bits,
    test_every_size_and_dtype_is_as_in_float64,
    test_infinity_beside_nan_leaves_nan_the_largest,
    test_it_compiles_without_a_break,
    test_nothing_and_only_empty_ones_give_zeros,
    test_tensors_of_several_dtypes_and_empty_ones_go_together,
    test_the_product_with_the_inverse_scale_is_what_is_counted,
    test_the_same_gradients_give_the_same_bits,
    test_three_thousand_tensors_are_each_told_apart,
    test_torch_checks_the_op,
    test_what_is_not_finite_is_counted_wherever_it_stands_and_in_no_other_row,
    test_what_it_does_not_take_is_named,
)


@pytest.fixture
def device(cuda: Any) -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def test_the_host_never_waits_and_a_graph_holds_it(device: torch.device) -> None:
    grads = [drawn(size, 30, device) for size in (3 * CHUNK, 5, 0, CHUNK + 1)] * 60  # more than a table holds
    scale = one(device)
    grad_stats(grads, scale)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        stats = grad_stats(grads, scale)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = grad_stats(grads, scale)
    scale.fill_(0.5)
    graph.replay()
    torch.testing.assert_close(held, grad_stats_in_double(grads, 0.5), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(stats, grad_stats_in_double(grads, 1.0), rtol=1e-6, atol=0.0)


def test_it_runs_on_the_stream_that_torch_is_on(device: torch.device) -> None:
    grad = torch.zeros(1 << 26, device=device)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for value in range(1, 30):
            grad.fill_(float(value))
        stats = grad_stats([grad], one(device))
    stream.synchronize()
    assert stats[0].tolist() == [29.0**2 * grad.numel(), 29.0, 0.0]


def test_a_gradient_elsewhere_is_refused(device: torch.device) -> None:
    with pytest.raises(REFUSAL, match=r"grad_stats: grads\[0\]: on another device"):
        grad_stats([torch.ones(3)], one(device))


def test_more_than_two_to_the_31_elements_are_counted_through(device: torch.device) -> None:
    size = 2**31 + CHUNK + 5
    if torch.cuda.mem_get_info(device)[0] < 2 * size + (1 << 30):
        pytest.skip("less than 5.4 GB free on the GPU")
    grad = torch.zeros(size, dtype=torch.bfloat16, device=device)
    grad[-1], grad[2**31 + 1] = 2.0, math.inf
    assert grad_stats([grad], one(device)).tolist() == [[math.inf, math.inf, 1.0]]
    grad[2**31 + 1] = -3.0
    assert grad_stats([grad], one(device)).tolist() == [[13.0, 3.0, 0.0]]


def test_the_bits_do_not_depend_on_how_many_blocks_there_are_room_for(device: torch.device) -> None:
    """A busy neighbour takes multiprocessors away; what is told stays."""
    grads = [drawn(3000 * CHUNK + 77, 31, device)]
    alone = bytes_of([grad_stats(grads, one(device))])
    other, square = torch.cuda.Stream(device), torch.randn(4096, 4096, device=device)
    with torch.cuda.stream(other):
        for _ in range(20):
            square = square @ square
    beside = bytes_of([grad_stats(grads, one(device))])
    torch.cuda.synchronize()
    assert beside == alone
