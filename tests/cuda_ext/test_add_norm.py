"""add_norm on the CPU, in C++ and in plain torch, against float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from cuda_ext import add_norm
from tests.cuda_ext.add_norm_grid import CASES, DTYPES, EPS, KINDS, Ops, askew, check, given, odd_values, ops, registered

__all__ = ["ops"]


@pytest.mark.parametrize(("dtype", "of_weight"), DTYPES, ids=str)
def test_it_and_its_gradient_are_what_float64_says(ops: Ops, dtype: torch.dtype, of_weight: torch.dtype) -> None:
    forward, backward = ops
    for case in CASES:
        if case[:2] == (dtype, of_weight):
            tried = given(*case)
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
    case = given(torch.float32, torch.float32, 5, 48, has_residual=False)
    case.x[2, 3] = float("-inf")
    assert ops[0](*case.forward())[4].tolist() == [float("inf"), float("inf"), 1.0]


def test_squares_that_overflow_are_not_counted_as_elements_that_are_not_finite(ops: Ops) -> None:
    case = given(torch.float32, torch.float32, 5, 48, has_residual=False)
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
        case = askew(given(dtype, dtype, 9, 256))
        results = ops[0](*case.forward())
        check(results, ops[1](*case.backward(results)), case)


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("rms", [False, True])
def test_it_is_the_norm_of_torch(rms: bool) -> None:
    case = given(torch.float32, torch.float32, 12, 96)
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
    case = given(torch.float32, torch.float32, 4, 32)
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
        given = (next(rest), next(rest) if has_residual else None, next(rest), next(rest) if has_bias else None)
        return add_norm(*given, rms=rms)[:2]

    leaves = [x, *([residual] if has_residual else []), weight, *([bias] if has_bias else [])]
    assert torch.autograd.gradcheck(results, leaves, eps=1e-2, atol=3e-3, rtol=1e-2)


@pytest.mark.parametrize("kind", [(True, True, False), (False, False, True)], ids=str)
def test_torch_finds_nothing_wrong_with_its_registration(ops: Ops, kind: tuple[bool, bool, bool]) -> None:
    case = given(torch.float32, torch.float32, 4, 24, *kind)
    for leaf in (case.x, case.residual, case.weight, case.bias):
        if leaf is not None:
            leaf.requires_grad_()
    torch.library.opcheck(registered()[0], case.forward())
    case = given(torch.bfloat16, torch.float32, 4, 24, *kind)
    torch.library.opcheck(registered()[1], case.backward(ops[0](*case.forward())))


@pytest.mark.usefixtures("cpu_library")
def test_it_compiles_into_one_graph_with_its_gradient() -> None:
    case = given(torch.float32, torch.float32, 6, 32)
    x, residual, weight, bias = (tensor.requires_grad_() for tensor in (case.x, case.residual, case.weight, case.bias))

    def loss() -> torch.Tensor:
        y, h, stats = add_norm(x * 2, residual, weight, bias)
        return (y * y).sum() + h.sum() + 0 * stats.sum()

    want = torch.autograd.grad(loss(), [x, residual, weight, bias])
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(), [x, residual, weight, bias])
    torch.testing.assert_close(found, want)


@pytest.mark.usefixtures("cpu_library")
def test_the_number_of_threads_changes_not_one_bit() -> None:
    case = given(torch.bfloat16, torch.float32, 300, 264)
    threads = torch.get_num_threads()

    def bits(count: int) -> list[torch.Tensor]:
        torch.set_num_threads(count)
        results = registered()[0](*case.forward())
        return [*results, *registered()[1](*case.backward(results))]

    try:
        assert all(torch.equal(*pair) for pair in zip(bits(1), bits(3), strict=True))
    finally:
        torch.set_num_threads(threads)


def test_no_rows_give_empty_results_and_zeros(ops: Ops) -> None:
    for rms in (False, True):
        case = given(torch.bfloat16, torch.bfloat16, 1, 24, rms=rms)
        none = torch.empty(2, 0, 24, dtype=torch.bfloat16)
        results = ops[0](none, none, case.weight, case.bias, EPS, rms)
        assert [tuple(one.shape) for one in results] == [(2, 0, 24), (2, 0, 24), (0,), (0,), (3,)]
        assert results[4].tolist() == [0.0, 0.0, 0.0]
        dx, dweight, dbias = ops[1](none, None, none, case.weight, *results[2:4], rms, True)
        assert dx.shape == none.shape
        assert torch.equal(dweight, torch.zeros(24, dtype=torch.bfloat16))
        assert torch.equal(dbias, torch.zeros(24, dtype=torch.bfloat16))


def refused() -> list[tuple[str, tuple[object, ...]]]:
    x, weight = torch.ones(2, 8), torch.ones(8)
    half, meta = x.bfloat16(), torch.ones(8, device="meta")
    return [
        ("x: dtype float64", (x.double(), None, weight)),
        ("x: not contiguous", (x.t().contiguous().t(), None, weight)),
        ("x: shape []", (torch.ones(()), None, weight)),
        ("x: shape [2, 0]", (torch.ones(2, 0), None, torch.ones(0))),
        ("x: layout torch.sparse_coo", (x.to_sparse(), None, weight)),
        ("residual: dtype bfloat16", (x, half, weight)),
        ("residual: shape [8], must be [2, 8]", (x, weight, weight)),
        ("weight: shape [2], must be [8]", (x, None, torch.ones(2))),
        ("weight: dtype float16, must be one of float32, bfloat16", (half, None, weight.half())),
        ("weight: dtype bfloat16, must be one of float32", (x, None, weight.bfloat16())),
        ("weight: on meta", (x, None, meta)),
        ("bias: dtype bfloat16, must be one of float32", (half, None, weight, weight.bfloat16())),
        ("bias: shape [8, 1]", (x, None, weight, weight.view(8, 1))),
    ]


@pytest.mark.parametrize(("sentence", "arguments"), refused(), ids=[sentence for sentence, _ in refused()])
def test_a_wrong_argument_is_named(sentence: str, arguments: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        add_norm(*arguments)
    assert str(caught.value).startswith(f"add_norm: {sentence}")


def test_a_negative_eps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"add_norm: eps: -1\.0, must not be negative"):
        add_norm(torch.ones(2, 8), None, torch.ones(8), eps=-1.0)


@pytest.mark.usefixtures("cpu_library")
def test_the_library_names_a_wrong_argument_too() -> None:
    forward, backward = registered()
    case = given(torch.float32, torch.float32, 4, 8)
    x, weight = case.x, case.weight
    good = case.backward(forward(*case.forward()))
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("add_norm: x: dtype float64", lambda: forward(x.double(), None, weight, None, EPS, False)),
        ("add_norm: residual: 16 elements, must be 32", lambda: forward(x, x[:2], weight, None, EPS, False)),
        ("add_norm: weight: 9 elements, must be 8", lambda: forward(x, None, torch.ones(9), None, EPS, False)),
        ("add_norm: bias: dtype float16", lambda: forward(x, None, weight, weight.half(), EPS, False)),
        ("add_norm_backward: dy: not contiguous", lambda: backward(x.t().contiguous().t(), *good[1:])),
        ("add_norm_backward: dh: dtype bfloat16", lambda: backward(good[0], x.bfloat16(), *good[2:])),
        ("add_norm_backward: mean: 3 elements, must be 4", lambda: backward(*good[:4], torch.ones(3), *good[5:])),
        ("add_norm_backward: rstd: dtype float64", lambda: backward(*good[:5], good[5].double(), *good[6:])),
    ]
    for sentence, call in wrong:
        with pytest.raises((RuntimeError, ValueError)) as caught:  # which, is a matter of the version of torch
            call()
        assert sentence in str(caught.value)
