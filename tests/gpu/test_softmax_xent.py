"""softmax_xent on a GPU: the grid of the CPU, and what only a GPU has: vectors, clusters, streams, sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuda_ext import softmax_xent
from cuda_ext.ops.softmax_xent import scale_op, softmax_xent_op
from tests.cuda_ext.softmax_xent_grid import (
    CASES,
    DTYPES,
    IGNORED,
    RELATIVE,
    SMALLEST,
    Case,
    check,
    make_case,
    near,
    with_odd_values,
)

pytestmark = pytest.mark.usefixtures("cuda")
# A warp's row, the last of them and the first of a block's; a row of one block, of clusters of 2, 4 and 8, and one read
# twice; some as vectors lie best and some not.
WIDE = (1024, 2048, 2049, 2056, 50_257, 50_304, 100_000, 128_256, 262_145, 1_000_003)


@pytest.mark.parametrize(("dtype", "rows", "columns", "z_loss"), CASES)
def test_it_is_what_float64_says(dtype: torch.dtype, rows: int, columns: int, z_loss: float) -> None:
    case = make_case(dtype, rows, columns, z_loss, "cuda")
    check(softmax_xent_op(*case.arguments()), case)


@pytest.mark.parametrize("columns", WIDE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_any_length_is_what_float64_says(dtype: torch.dtype, columns: int) -> None:
    """More rows than a GPU holds at once where that is cheap: every block takes a second one and a third."""
    case = make_case(dtype, 2500 if columns <= 2056 else 5, columns, 1e-3, "cuda")
    check(softmax_xent_op(*case.arguments()), case)


@pytest.mark.parametrize("columns", [50_257, 50_304, 128_256])
def test_blocks_that_take_many_rows_keep_them_apart(columns: int) -> None:
    case = make_case(torch.bfloat16, 1200, columns, 0.0, "cuda")
    got = softmax_xent_op(*case.arguments())
    rows = torch.arange(0, 1200, 97, device="cuda")
    alone = softmax_xent_op(case.logits[rows], case.targets[rows], *case.arguments()[2:])
    for part in (1, 2, 3):
        if columns % 8 == 0:  # else a row alone begins elsewhere in a vector and sums in another order
            assert torch.equal(got[part][rows], alone[part])
        torch.testing.assert_close(got[part][rows], alone[part], rtol=2**-8, atol=1e-5)
    want = F.cross_entropy(case.logits.float(), case.targets, ignore_index=IGNORED, reduction="none")
    torch.testing.assert_close(got[1], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [8, 257, 5000, 50_257, 128_256, 1_000_003])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_finite_stays_in_its_row_and_is_counted(dtype: torch.dtype, columns: int) -> None:
    case = with_odd_values(dtype, columns, "cuda")
    results = softmax_xent_op(*case.arguments())
    check(results, case)
    _, losses, _, dlogits, stats, _ = results
    assert losses.isnan().tolist() == [False, True, True, False, True, True, True, False]
    assert dlogits.isnan().any(1).tolist() == losses.isnan().tolist()
    assert dlogits[7].count_nonzero() == 0
    assert stats[1] == 4 + columns + 2


@pytest.mark.parametrize("columns", [9, 257, 50_257])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_target_may_lie_anywhere_in_its_row(dtype: torch.dtype, columns: int) -> None:
    """Before the first vector, in the last, behind it; and what is ignored may be a column as well."""
    case = make_case(dtype, 64, columns, 0.0, "cuda")
    case.targets[:32] = torch.arange(32, device="cuda") % columns
    case.targets[32:] = columns - 1 - torch.arange(32, device="cuda") % columns
    ignored = int(case.targets[40])
    _, losses, _, dlogits, _, _ = softmax_xent_op(*case.arguments()[:5], ignored)
    wide = case.logits.double().requires_grad_()
    want = F.cross_entropy(wide, case.targets, ignore_index=ignored, reduction="none")
    (want.sum() * case.weight * case.expected).backward()
    assert wide.grad is not None
    near(losses, want.detach(), 2e-6, 4e-6)
    near(dlogits, wide.grad, RELATIVE[dtype], SMALLEST[dtype] + 4e-7 / 32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_finds_the_ops_well_registered(dtype: torch.dtype) -> None:
    case = make_case(dtype, 6, 33, 1e-3, "cuda")
    one = torch.ones((), device="cuda")
    arguments = (case.logits.requires_grad_(), case.targets, case.weight, one, 1e-3, IGNORED)
    torch.library.opcheck(softmax_xent_op, arguments)
    torch.library.opcheck(scale_op, (torch.randn(7, device="cuda").to(dtype), torch.full((), 3.0, device="cuda")))


@pytest.mark.parametrize("offset", [1, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_view_may_begin_anywhere(dtype: torch.dtype, offset: int) -> None:
    case = make_case(dtype, 5, 5001, 0.0, "cuda")
    room = torch.empty(5 * 5001 + offset, dtype=dtype, device="cuda")
    view = room[offset:].view(5, 5001)
    view.copy_(case.logits)
    moved = Case(view, case.targets, case.weight, case.expected, case.z_loss)
    for one, other in zip(softmax_xent_op(*moved.arguments()), softmax_xent_op(*case.arguments()), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("rows", "columns"), [(5000, 256), (700, 50_304), (300, 128_256)])
def test_the_same_inputs_give_the_same_bits(rows: int, columns: int) -> None:
    case = make_case(torch.bfloat16, rows, columns, 1e-3, "cuda")
    first = softmax_xent_op(*case.arguments())
    for _ in range(5):
        again = softmax_xent_op(*case.arguments())
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_trains_without_a_word_to_the_host(dtype: torch.dtype) -> None:
    case = make_case(dtype, 64, 50_304, 0.0, "cuda")
    logits, expected = case.logits.requires_grad_(), torch.tensor(4.0, device="cuda")
    softmax_xent(logits, case.targets, expected=expected)[0].backward(expected)
    logits.grad = None
    torch.cuda.set_sync_debug_mode("error")
    try:
        total, mean, stats = softmax_xent(logits, case.targets, expected=expected)
        total.backward(expected)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    wide = logits.detach().double().requires_grad_()
    want = F.cross_entropy(wide, case.targets)
    want.backward()
    torch.testing.assert_close(total.double(), want, rtol=4e-6, atol=0)
    torch.testing.assert_close(mean.double(), want.detach(), rtol=4e-6, atol=0)
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10}[dtype]
    torch.testing.assert_close(logits.grad.double(), wide.grad * 4, rtol=tolerance, atol=1e-7)
    assert stats.device.type == "cuda"


def test_it_compiles_into_one_graph() -> None:
    case = make_case(torch.bfloat16, 32, 1000, 0.0, "cuda")

    def step(logits: Tensor) -> tuple[Tensor, Tensor]:
        total, _, stats = softmax_xent(logits * 2, case.targets, z_loss=1e-3)
        return total, stats

    grads, totals = [], []
    for way in (step, torch.compile(step, fullgraph=True)):
        logits = case.logits.clone().requires_grad_()
        total, stats = way(logits)
        total.backward()
        assert logits.grad is not None
        grads.append(logits.grad)
        totals.append(torch.stack([total.detach().double(), *stats]))
    torch.testing.assert_close(*grads)
    torch.testing.assert_close(*totals, rtol=1e-6, atol=1e-6)  # one over the count is divided by compiled code: off by a last bit


def test_it_works_on_the_stream_that_is_current() -> None:
    case = make_case(torch.float32, 2000, 5000, 0.0, "cuda")
    want = softmax_xent_op(*case.arguments())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)
        late = case.logits * 1
        got = softmax_xent_op(late, *case.arguments()[1:])
    torch.cuda.current_stream().wait_stream(side)
    assert all(torch.equal(one, other) for one, other in zip(want, got, strict=True))


def test_it_is_captured_in_a_graph() -> None:
    case = make_case(torch.bfloat16, 40, 50_304, 0.0, "cuda")
    want = softmax_xent_op(*case.arguments())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = softmax_xent_op(*case.arguments())
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(want, got, strict=True))


def test_more_than_two_to_the_31_elements_are_handled() -> None:
    rows, columns = 43_000, 50_304
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("needs 12 GB of the GPU's memory")
    logits = torch.zeros(rows, columns, dtype=torch.bfloat16, device="cuda")
    assert logits.numel() > 2**31
    logits[-1] = torch.linspace(-8, 8, columns, device="cuda")
    targets = torch.full((rows,), columns - 1, device="cuda")
    one = torch.ones((), device="cuda")
    _, losses, _, dlogits, stats, _ = softmax_xent_op(logits, targets, one, one, 0.0, IGNORED)
    want = F.cross_entropy(logits[-1:].float(), targets[-1:])
    torch.testing.assert_close(losses[-1], want, rtol=1e-5, atol=1e-5)
    assert abs(float(dlogits[-1].float().sum())) < 0.01
    assert stats[1] == 0
    before = dlogits[-1].float()
    scale_op(dlogits, torch.full((), 2.0, device="cuda"))
    assert torch.equal(dlogits[-1].float(), before * 2)


@pytest.mark.parametrize("offset", [0, 1, 5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 7, 100_003])
def test_scale_rounds_once_and_by_one_changes_no_bit(dtype: torch.dtype, count: int, offset: int) -> None:
    x = torch.randn(count + offset, device="cuda").to(dtype)
    same, third = x.clone()[offset:], x.clone()[offset:]
    scale_op(same, torch.ones((), device="cuda"))
    scale_op(third, torch.tensor(1 / 3, device="cuda"))
    assert torch.equal(same, x[offset:])
    assert torch.equal(third, (x[offset:].float() * torch.tensor(1 / 3, device="cuda")).to(dtype))


def test_of_no_tokens_nothing_is_told() -> None:
    one = torch.ones((), device="cuda")
    empty = torch.empty(0, 5, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda")
    total, _, _, dlogits, stats, _ = softmax_xent_op(*empty, one, one, 0.1, IGNORED)
    assert (total.item(), stats.tolist(), dlogits.shape) == (0.0, [0.0] * 4, (0, 5))


def test_an_argument_on_another_device_is_named() -> None:
    one = torch.ones((), device="cuda")
    with pytest.raises((ValueError, RuntimeError), match="softmax_xent: targets: on"):
        softmax_xent(torch.ones(2, 3, device="cuda"), torch.zeros(2, dtype=torch.int64))
    targets = torch.zeros(2, dtype=torch.int64, device="cuda")
    with pytest.raises((ValueError, RuntimeError), match="softmax_xent: logits: not contiguous"):
        softmax_xent_op(torch.ones(3, 2, device="cuda").t(), targets, one, one, 0.0, IGNORED)
