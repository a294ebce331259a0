"""What add_norm refuses, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuda_ext import add_norm
from tests.cuda_ext.add_norm_grid import EPS, make_case, registered


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
    case = make_case(torch.float32, torch.float32, 4, 8)
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


def test_a_second_derivative_is_refused() -> None:
    x, weight = torch.randn(3, 8, requires_grad=True), torch.ones(8)
    (slope,) = torch.autograd.grad(add_norm(x, None, weight)[0].sum(), [x], create_graph=True)
    with pytest.raises(RuntimeError, match="add_norm: it has no second derivative"):
        slope.square().sum().backward()
