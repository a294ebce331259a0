"""A wrong argument of softmax_xent and scale_ ends in a sentence with its name, whichever version runs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuda_ext import softmax_xent
from cuda_ext.ops.softmax_xent import scale_op
from tests.cuda_ext.softmax_xent_grid import IGNORED, Op, op

__all__ = ["op"]

BAD: list[tuple[dict[str, Tensor], str]] = [
    ({"logits": torch.ones(2, 3, dtype=torch.float64)}, r"softmax_xent: logits: dtype float64, must be one of float32"),
    ({"logits": torch.ones(3, 2).t()}, r"softmax_xent: logits: not contiguous"),
    ({"logits": torch.ones(2, 3, 1)}, r"softmax_xent: logits: 3 dimensions, must be 2"),
    ({"logits": torch.ones(2, 0)}, r"softmax_xent: logits: a vocabulary of 0, must be at least 1"),
    ({"targets": torch.zeros(2)}, r"softmax_xent: targets: dtype float32, must be one of int64"),
    ({"targets": torch.zeros(3, dtype=torch.int64)}, r"softmax_xent: targets: .*3.* must be .*2"),
    ({"weight": torch.ones(2)}, r"softmax_xent: weight: .*2.* must be"),
    ({"weight": torch.ones((), dtype=torch.float64)}, r"softmax_xent: weight: dtype float64, must be one of float32"),
    ({"expected": torch.ones(3)}, r"softmax_xent: expected: .*3.* must be"),
]


@pytest.mark.parametrize(("wrong", "sentence"), BAD)
def test_a_wrong_argument_is_named(op: Op, wrong: dict[str, Tensor], sentence: str) -> None:
    one = torch.ones(())
    right = {"logits": torch.ones(2, 3), "targets": torch.zeros(2, dtype=torch.int64), "weight": one, "expected": one}
    with pytest.raises((ValueError, RuntimeError), match=sentence):
        op(*(right | wrong).values(), 0.0, IGNORED)


@pytest.mark.usefixtures("cpu_library")
def test_a_wrong_argument_of_the_function_is_named() -> None:
    logits, targets = torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"softmax_xent: targets: shape \[2\], must be \[2, 3\]"):
        softmax_xent(torch.ones(2, 3, 4), targets)
    with pytest.raises(ValueError, match=r"softmax_xent: logits: not contiguous"):
        softmax_xent(torch.ones(3, 2).t(), targets)
    with pytest.raises(ValueError, match=r"softmax_xent: logits: a vocabulary of 0, must be at least 1"):
        softmax_xent(torch.ones(2, 0), targets)
    with pytest.raises(ValueError, match=r"softmax_xent: logits: no dimensions"):
        softmax_xent(torch.ones(()), targets)
    with pytest.raises(ValueError, match=r"softmax_xent: targets: on meta"):
        softmax_xent(logits, targets.to("meta"))
    with pytest.raises(ValueError, match=r"softmax_xent: expected: dtype float64"):
        softmax_xent(logits, targets, expected=torch.ones((), dtype=torch.float64))
    with pytest.raises((ValueError, RuntimeError), match=r"scale_: x: not contiguous"):
        scale_op(torch.ones(3, 2).t(), torch.ones(()))
    with pytest.raises((ValueError, RuntimeError), match=r"scale_: factor: .*2.* must be"):
        scale_op(torch.ones(3), torch.ones(2))
