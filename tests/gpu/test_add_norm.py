"""add_norm on a GPU: the same as on the CPU, and what only a GPU can do wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from cuda_ext import add_norm
from tests.cuda_ext.add_norm_grid import CASES, DTYPES, EPS, Case, askew, check, make_case, odd_values, registered

pytestmark = pytest.mark.usefixtures("cuda")


def run(case: Case) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    forward, backward = registered()
    results = forward(*case.forward())
    return results, backward(*case.backward(results))


@pytest.mark.parametrize(("dtype", "of_weight"), DTYPES, ids=str)
def test_it_and_its_gradient_are_what_float64_says(dtype: torch.dtype, of_weight: torch.dtype) -> None:
    for case in CASES:
        if case[:2] == (dtype, of_weight):
            tried = make_case(*case, device="cuda")
            check(*run(tried), tried)


@pytest.mark.parametrize("width", [768, 2048, 12288, 20_000])
def test_more_rows_than_run_at_once(width: int) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        tried = make_case(dtype, torch.float32, 5000 if width < 10_000 else 700, width, device="cuda")
        check(*run(tried), tried)


def test_what_is_not_finite_stays_in_its_row_and_is_counted() -> None:
    for width in (40, 2000, 12288):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            case = odd_values("cuda", dtype, width)
            y, h, _, _, stats = registered()[0](*case.forward())
            assert stats[:2].isnan().all()
            assert stats[2] == 5 == (~h.isfinite()).sum()
            assert y.isnan().any(1).tolist() == [False, True, False, True, False, True, False]


def test_tensors_that_begin_between_two_vectors() -> None:
    for width in (256, 1280):
        case = askew(make_case(torch.bfloat16, torch.bfloat16, 9, width, device="cuda"))
        check(*run(case), case)


def test_the_same_bits_every_time_on_any_stream() -> None:
    case = make_case(torch.bfloat16, torch.float32, 3000, 1280, device="cuda")
    first = [one for results in run(case) for one in results]
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    again = []
    for number in range(40):
        with torch.cuda.stream(streams[number % 4]):
            again.append([one for results in run(case) for one in results])
    torch.cuda.synchronize()
    assert all(torch.equal(*pair) for results in again for pair in zip(first, results, strict=True))


def test_threads_with_rows_of_two_widths_do_not_disturb_each_other() -> None:
    """Rows so long need shared memory that a kernel must ask for, and both threads ask for the same kernel."""

    def same_bits(width: int) -> bool:
        case = make_case(torch.float32, torch.float32, 40, width, device="cuda")
        first = [one for results in run(case) for one in results]
        return all(torch.equal(*pair) for _ in range(200) for pair in zip(first, (o for r in run(case) for o in r), strict=True))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(same_bits, (8192, 16384)))


def test_it_can_be_captured_and_replayed() -> None:
    case = make_case(torch.bfloat16, torch.bfloat16, 500, 768, device="cuda")
    run(case)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward, backward = run(case)
    for _ in range(3):
        case.x.mul_(0.5)
        graph.replay()
        torch.cuda.synchronize()
        check(forward, backward, case)


def test_it_waits_for_no_result() -> None:
    case = make_case(torch.bfloat16, torch.bfloat16, 50, 768, device="cuda")
    run(case)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(case)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_more_elements_than_an_int_counts() -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("less than 40 GB of the GPU's memory are free")
    rows, width = (1 << 31) // 4096 + 3, 4096
    x = torch.ones(rows, width, dtype=torch.bfloat16, device="cuda")
    x[-1, -1] = 7
    weight = torch.ones(width, dtype=torch.bfloat16, device="cuda")
    y, _, mean, rstd, stats = registered()[0](x, None, weight, None, EPS, True)
    assert stats.tolist() == [rows * width - 1 + 49.0, 7.0, 0.0]
    torch.testing.assert_close(y[-2].float(), torch.ones(width, device="cuda"), rtol=1e-2, atol=0)
    assert y[-1, -1] > 6
    dx, dweight, _ = registered()[1](torch.ones_like(x), None, x, weight, mean, rstd, True, False)
    assert dx[-1].isfinite().all()
    assert bool((dweight[:-1].float() / rows - 1).abs().max() < 1e-2)


def test_it_compiles_into_one_graph_with_its_gradient() -> None:
    case = make_case(torch.float32, torch.float32, 60, 768, device="cuda")
    x, residual, weight, bias = (tensor.requires_grad_() for tensor in (case.x, case.residual, case.weight, case.bias))

    def loss() -> torch.Tensor:
        y, h, _ = add_norm(x * 2, residual, weight, bias)
        return (y * y).sum() + h.sum()

    want = torch.autograd.grad(loss(), [x, residual, weight, bias])
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(), [x, residual, weight, bias])
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-3)


def test_tensors_of_two_devices_are_refused() -> None:
    x, weight = torch.ones(2, 8, device="cuda"), torch.ones(8)
    with pytest.raises(ValueError, match="add_norm: weight: on cpu"):
        add_norm(x, None, weight)
    with pytest.raises((RuntimeError, ValueError), match="add_norm: weight: on another device"):  # as torch's version has it
        registered()[0](x, None, weight, None, EPS, False)
