"""scale_ on the CPU: a factor in place, and nothing at all where it is 1."""

from __future__ import annotations

import pytest
import torch

from cuda_ext.ops.softmax_xent import scale_op
from cuda_ext.reference import softmax_xent as reference
from tests.cuda_ext.softmax_xent_grid import DTYPES


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 100, 40_001])
def test_scale_rounds_once_and_by_one_changes_no_bit(dtype: torch.dtype, count: int) -> None:
    x = torch.randn(count, generator=torch.Generator().manual_seed(4)).to(dtype)
    same, tripled = x.clone(), x.clone()
    scale_op(same, torch.tensor(1.0))
    scale_op(tripled, torch.tensor(1 / 3))
    assert torch.equal(same, x)
    assert torch.equal(tripled, (x.float() * torch.tensor(1 / 3)).to(dtype))


@pytest.mark.usefixtures("cpu_library")
def test_every_bit_pattern_of_the_short_formats_is_read_and_written_as_torch_does() -> None:
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.bfloat16, torch.float16):
        for factor in (1.0000001, 0.25, 3.0e4, 1e-4):
            x = patterns.view(dtype).clone()
            want = (x.float() * torch.tensor(factor)).to(dtype)
            scale_op(x, torch.tensor(factor))
            number = ~want.isnan()
            assert torch.equal(~x.isnan(), number)
            assert torch.equal(x.view(torch.int16)[number], want.view(torch.int16)[number])
        for scale in (scale_op, reference.scale_):
            x = patterns.view(dtype).clone()
            scale(x, torch.tensor(1.0))
            assert torch.equal(x.view(torch.int16), patterns)  # not a bit, of a NaN either
