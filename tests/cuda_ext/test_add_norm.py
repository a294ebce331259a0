"""add_norm on the CPU, in C++ and in plain torch, against float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cuda_ext import add_norm
from cuda_ext.bench import add_norm as bench
from tests.cuda_ext.add_norm_grid import CASES, DTYPES, EPS, KINDS, Ops, askew, check, make_case, odd_values, ops, registered

__all__ = ["ops"]


@pytest.mark.parametrize(("dtype", "of_weight"), DTYPES, ids=str)
def test_it_and_its_gradient_are_what_float64_says(ops: Ops, dtype: torch.dtype, of_weight: torch.dtype) -> None:
    forward, backward = ops
    for case in CASES:
        if case[:2] == (dtype, of_weight):
            tried = make_case(*case)
            results = forward(*tried.forward())
            check(results, backward(*tried.backward(results)), tried)


def test_what_is_not_finite_stays_in_its_row_and_is_counted(ops: Ops) -> None:
    for width in (40, 2000):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            case = odd_values(dtype=dtype, width=width)
            y, h, _, _, stats = ops[0](*case.forward())
            assert stats[0].isnan()
            assert stats[1].isnan()
            assert stats[2] == 5 == (~h.isfinite()).sum()
            assert y.isnan().any(1).tolist() == [False, True, False, True, False, True, False]


def test_infinity_alone_is_told_as_infinity(ops: Ops) -> None:
    case = make_case(torch.float32, torch.float32, 5, 48, has_residual=False)
    case.x[2, 3] = float("-inf")
    assert ops[0](*case.forward())[4].tolist() == [float("inf"), float("inf"), 1.0]


def test_squares_that_overflow_are_not_counted_as_elements_that_are_not_finite(ops: Ops) -> None:
    case = make_case(torch.float32, torch.float32, 5, 48, has_residual=False)
    case.x[2, 3] = 3e38
    stats = ops[0](*case.forward())[4]
    assert stats[1] == torch.tensor(3e38)
    assert stats[2] == 0


@pytest.mark.usefixtures("cpu_library")
def test_a_sum_of_any_two_elements_is_rounded_as_torch_rounds_it() -> None:
    random = torch.Generator().manual_seed(11)
    for dtype in (torch.bfloat16, torch.float16):
        bits = torch.randint(0, 1 << 16, (2, 200_000, 2), generator=random, dtype=torch.int32).to(torch.int16)
        x, residual = bits.view(dtype)
        h = registered()[0](x, residual, torch.ones(2, dtype=dtype), None, EPS, True)[1]
        torch.testing.assert_close(h, x + residual, rtol=0, atol=0, equal_nan=True)


def test_tensors_that_begin_between_two_vectors(ops: Ops) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        case = askew(make_case(dtype, dtype, 9, 256))
        results = ops[0](*case.forward())
        check(results, ops[1](*case.backward(results)), case)


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("rms", [False, True])
def test_it_is_the_norm_of_torch(rms: bool) -> None:
    case = make_case(torch.float32, torch.float32, 12, 96)
    leaves = [tensor.clone().requires_grad_() for tensor in (case.x.view(3, 4, 96), case.residual.view(3, 4, 96), case.weight)]
    x, residual, weight = leaves
    y, h, stats = add_norm(x, residual, weight, rms=rms)
    (y.sin().sum() + h.cos().sum()).backward()
    found = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    total = x + residual
    wanted = F.rms_norm(total, (96,), weight, EPS) if rms else F.layer_norm(total, (96,), weight, None, EPS)
    torch.testing.assert_close((y, h), (wanted, total))
    (wanted.sin().sum() + total.cos().sum()).backward()
    torch.testing.assert_close(found, [leaf.grad for leaf in leaves], rtol=1e-5, atol=1e-5)
    assert (y.requires_grad, h.requires_grad, stats.requires_grad) == (True, True, False)


@pytest.mark.usefixtures("cpu_library")
def test_who_uses_only_one_result_gets_its_gradient_alone() -> None:
    case = make_case(torch.float32, torch.float32, 4, 32)
    x, residual, weight = (tensor.requires_grad_() for tensor in (case.x, case.residual, case.weight))
    (h_only,) = torch.autograd.grad(add_norm(x, residual, weight)[1].sum(), [x])
    assert torch.equal(h_only, torch.ones_like(x))
    y_only = torch.autograd.grad(add_norm(x, residual, weight)[0].sum(), [x, residual])  # its gradient comes expanded
    assert torch.equal(*y_only)


def test_without_a_residual_h_is_x_itself() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    _, h, _ = add_norm(x, None, torch.ones(8))
    assert h is x


@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not a double")
@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_its_gradient_is_the_slope_of_its_results(kind: tuple[bool, bool, bool]) -> None:
    has_residual, has_bias, rms = kind
    random = torch.Generator().manual_seed(5)
    x, residual = (torch.randn(3, 6, generator=random, requires_grad=True) for _ in range(2))
    weight, bias = (torch.randn(6, generator=random, requires_grad=True) for _ in range(2))

    def results(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(leaves)
        arguments = (next(rest), next(rest) if has_residual else None, next(rest), next(rest) if has_bias else None)
        return add_norm(*arguments, rms=rms)[:2]

    leaves = [x, *([residual] if has_residual else []), weight, *([bias] if has_bias else [])]
    assert torch.autograd.gradcheck(results, leaves, eps=1e-2, atol=3e-3, rtol=1e-2)


@pytest.mark.parametrize("kind", [(True, True, False), (False, False, True)], ids=str)
def test_torch_finds_nothing_wrong_with_its_registration(ops: Ops, kind: tuple[bool, bool, bool]) -> None:
    case = make_case(torch.float32, torch.float32, 4, 24, *kind)
    for leaf in (case.x, case.residual, case.weight, case.bias):
        if leaf is not None:
            leaf.requires_grad_()
    torch.library.opcheck(registered()[0], case.forward())
    case = make_case(torch.bfloat16, torch.float32, 4, 24, *kind)
    torch.library.opcheck(registered()[1], case.backward(ops[0](*case.forward())))


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_its_gradient(dynamic: bool) -> None:
    def loss(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y, h, stats = add_norm(x * 2, *others)
        return (y * y).sum() + h.sum() + 0 * stats.sum()

    fast = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (6, 9):
        case = make_case(torch.float32, torch.float32, rows, 32)
        leaves = [tensor.requires_grad_() for tensor in (case.x, case.residual, case.weight, case.bias)]
        found = torch.autograd.grad(fast(*leaves), leaves)
        torch.testing.assert_close(found, torch.autograd.grad(loss(*leaves), leaves))


@pytest.mark.usefixtures("cpu_library")
def test_the_number_of_threads_changes_not_one_bit() -> None:
    case = make_case(torch.bfloat16, torch.float32, 300, 264)

    def bits(count: int) -> list[torch.Tensor]:
        torch.set_num_threads(count)
        results = registered()[0](*case.forward())
        return [*results, *registered()[1](*case.backward(results))]

    assert all(torch.equal(*pair) for pair in zip(bits(1), bits(3), strict=True))


def test_every_case_of_the_bench_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """But what is compiled: that takes minutes, and is torch's own."""
    monkeypatch.setattr(bench, "MOVED_BYTES", {"cpu": 1 << 17})
    monkeypatch.setattr(bench, "compiled", lambda function, *_: function)
    tried = []
    for case in bench.cases(torch.device("cpu")):
        found, wanted = case.ours(torch.ops.sentinel), case.peers["torch"]()
        torch.testing.assert_close(found[0], wanted if isinstance(wanted, torch.Tensor) else wanted[0], rtol=0.02, atol=0.05)
        tried.append((case.op, case.shape, case.dtype))
    assert len(set(tried)) == len(tried) == 2 * 2 * 2 * len(bench.WIDTHS["cpu"])


def test_no_rows_give_empty_results_and_zeros(ops: Ops) -> None:
    for rms in (False, True):
        case = make_case(torch.bfloat16, torch.bfloat16, 1, 24, rms=rms)
        none = torch.empty(2, 0, 24, dtype=torch.bfloat16)
        results = ops[0](none, none, case.weight, case.bias, EPS, rms)
        assert [tuple(one.shape) for one in results] == [(2, 0, 24), (2, 0, 24), (0,), (0,), (3,)]
        assert results[4].tolist() == [0.0, 0.0, 0.0]
        dx, dweight, dbias = ops[1](none, None, none, case.weight, *results[2:4], rms, True)
        assert dx.shape == none.shape
        assert torch.equal(dweight, torch.zeros(24, dtype=torch.bfloat16))
        assert torch.equal(dbias, torch.zeros(24, dtype=torch.bfloat16))
