"""softmax_xent on the CPU, in C++ and in plain torch, against float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cuda_ext import softmax_xent
from cuda_ext.ops.softmax_xent import scale_op, softmax_xent_op, softmax_xent_over_op
from cuda_ext.reference import softmax_xent as reference
from tests.cuda_ext.softmax_xent_grid import CASES, DTYPES, IGNORED, Case, Op, check, make_case, op, with_odd_values

__all__ = ["op"]


@pytest.mark.parametrize(("dtype", "rows", "columns", "z_loss"), CASES)
def test_it_is_what_float64_says(op: Op, dtype: torch.dtype, rows: int, columns: int, z_loss: float) -> None:
    case = make_case(dtype, rows, columns, z_loss)
    check(op(*case.arguments()), case)


@pytest.mark.parametrize("columns", [8, 257])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_finite_stays_in_its_row_and_is_counted(op: Op, dtype: torch.dtype, columns: int) -> None:
    case = with_odd_values(dtype, columns)
    results = op(*case.arguments())
    check(results, case)
    total, losses, _, dlogits, stats, _ = results
    assert total.isnan()
    assert losses.isnan().tolist() == [False, True, True, False, True, True, True, False]
    assert dlogits.isnan().any(1).tolist() == losses.isnan().tolist()
    assert dlogits[7].count_nonzero() == 0
    assert stats[0].isnan()
    assert stats[1] == 4 + columns + 2


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("ignored", [IGNORED, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_the_loss_and_the_gradient_of_torch(dtype: torch.dtype, ignored: int) -> None:
    """What is ignored may be a column as well: the token that fills up."""
    logits = (torch.randn(3, 5, 300, generator=torch.Generator().manual_seed(1)) * 4).to(dtype).requires_grad_()
    targets = torch.randint(300, (3, 5), generator=torch.Generator().manual_seed(2))
    targets[0, 2:] = ignored
    wide = logits.detach().double().requires_grad_()
    want = F.cross_entropy(wide.view(-1, 300), targets.view(-1), ignore_index=ignored)
    want.backward()
    total, mean, stats = softmax_xent(logits, targets, ignore_index=ignored)
    total.backward()
    assert (total.requires_grad, mean.requires_grad, stats.requires_grad) == (True, False, False)
    torch.testing.assert_close(total.double(), want, rtol=2e-6, atol=0)
    torch.testing.assert_close(mean.double(), want.detach(), rtol=2e-6, atol=0)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10}[dtype]
    torch.testing.assert_close(logits.grad.double(), wide.grad, rtol=tolerance, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")
def test_its_gradient_is_the_slope_of_its_total(op: Op) -> None:
    """Each backward through a call of its own: gradcheck asks more than one of the same."""

    class Afresh(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, logits: Tensor) -> Tensor:
            ctx.save_for_backward(logits)
            return op(logits, targets, weight, torch.ones(()), 0.02, IGNORED)[0]

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            (logits,) = ctx.saved_tensors
            with torch.enable_grad():
                again = logits.detach().requires_grad_()
                total = softmax_xent(again, targets, z_loss=0.02)[0]
            return torch.autograd.grad(total, again, grads[0])[0]

    targets = torch.tensor([0, 4, IGNORED])
    weight = torch.tensor(0.5)
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(3)).requires_grad_()
    assert torch.autograd.gradcheck(Afresh.apply, (logits,), eps=1e-2, atol=1e-4, rtol=1e-3)


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_finds_the_ops_well_registered(dtype: torch.dtype) -> None:
    """With the gradient that is expected: another one would scale the dlogits that opcheck still looks at."""
    case = make_case(dtype, 6, 33, 1e-3)
    arguments = (case.logits.requires_grad_(), case.targets, case.weight, torch.ones(()), 1e-3, IGNORED)
    torch.library.opcheck(softmax_xent_op, arguments)
    torch.library.opcheck(scale_op, (torch.randn(7).to(dtype), torch.tensor(3.0)))


@pytest.mark.usefixtures("cpu_library")
def test_it_compiles_into_one_graph_for_all_sizes_with_the_same_bits() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend  # the compiler takes as long to import as the rest of torch

    def step(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total, mean, stats = softmax_xent(logits * 2, targets, z_loss=1e-3)
        return total * 3, mean, stats

    counted = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step, fullgraph=True, backend=counted, dynamic=True)
    for rows, columns in ((6, 40), (9, 33)):
        case = make_case(torch.float32, rows, columns)
        grads, totals = [], []
        for way in (step, compiled):
            logits = case.logits.clone().requires_grad_()
            total, _, stats = way(logits, case.targets)
            total.backward()
            grads.append(logits.grad)
            totals.append(torch.stack([total.detach(), *stats]))
        assert torch.equal(*grads)
        assert torch.equal(*totals)
    assert counted.frame_count == 1


@pytest.mark.usefixtures("cpu_library")
def test_another_gradient_than_expected_is_right_as_well() -> None:
    case = make_case(torch.float32, 5, 12)
    grads = []
    for expected, given_it in ((1.0, 1.0), (8.0, 8.0), (8.0, -3.0), (1.0, 0.0), (0.0, 0.0)):
        logits = case.logits.clone().requires_grad_()
        total = softmax_xent(logits, case.targets, expected=torch.tensor(expected))[0]
        total.backward(torch.tensor(given_it))
        grads.append(logits.grad)
    torch.testing.assert_close(grads[1], grads[0] * 8)
    torch.testing.assert_close(grads[2], grads[0] * -3)
    for none in grads[3:]:
        assert torch.equal(none, torch.zeros_like(none))  # and not 0 / 0


@pytest.mark.usefixtures("cpu_library")
def test_an_expected_loss_scale_keeps_float16_gradients_from_vanishing() -> None:
    logits = torch.full((4, 4000), -9.0, dtype=torch.float16)
    logits[:, 0] = 9.0
    logits = logits.repeat(500, 1)
    targets, scale = torch.zeros(2000, dtype=torch.int64), 65536.0
    kept = []
    for expected in (torch.tensor(scale), None):
        leaf = logits.clone().requires_grad_()
        (softmax_xent(leaf, targets, expected=expected)[0] * scale).backward()
        kept.append(int(leaf.grad[:, 1:].count_nonzero()))
    assert kept == [logits[:, 1:].numel(), 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_weight_the_counted_tokens_share_the_total(op: Op, dtype: torch.dtype) -> None:
    case = make_case(dtype, 12, 257, 1e-3)
    results = op(case.logits, case.targets, None, None, 1e-3, IGNORED)
    counted = int((case.targets != IGNORED).sum())
    check(results, Case(case.logits, case.targets, torch.tensor(1 / counted), torch.tensor(1.0), 1e-3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_no_gradient_is_wanted_none_is_made(op: Op, dtype: torch.dtype) -> None:
    case = make_case(dtype, 5, 257, 1e-3)
    before = case.logits.clone()
    with_gradient, without = op(*case.arguments()), op(*case.arguments(), False)
    assert without[3].shape == (0,)
    assert torch.equal(case.logits, before)
    for place in (0, 1, 2, 4, 5):
        assert torch.equal(without[place], with_gradient[place])


@pytest.mark.usefixtures("cpu_library")
def test_the_function_makes_no_gradient_that_nobody_can_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    whole = torch.ops.sentinel.softmax_xent
    monkeypatch.setattr(torch.ops.sentinel, "softmax_xent", lambda *arguments: asked.append(arguments[-1]) or whole(*arguments))
    logits, targets = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 1, 2])
    softmax_xent(logits, targets)
    softmax_xent(logits.detach(), targets)
    with torch.no_grad():
        softmax_xent(logits, targets)
    assert asked == [True, False, False]
    with pytest.raises(RuntimeError, match="wants_gradient=False"):
        whole(logits, targets, None, None, 0.0, IGNORED, False)[0].backward()


@pytest.mark.parametrize("library", ["torch", "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_over_the_logits_the_gradient_is_the_same(request: pytest.FixtureRequest, library: str, dtype: torch.dtype) -> None:
    over = reference.softmax_xent_
    if library == "cpu":
        request.getfixturevalue("cpu_library")
        over = softmax_xent_over_op
    case = make_case(dtype, 12, 257, 1e-3)
    want = (softmax_xent_op if library == "cpu" else reference.softmax_xent)(*case.arguments())
    got = over(*case.arguments())
    assert torch.equal(case.logits, want[3])
    assert all(torch.equal(one, other) for one, other in zip(got, (*want[:3], *want[4:]), strict=True))
    if library == "cpu":
        torch.library.opcheck(softmax_xent_over_op, make_case(dtype, 6, 33, 1e-3).arguments())


@pytest.mark.usefixtures("cpu_library")
def test_logits_may_be_overwritten_where_the_caller_allows_it() -> None:
    case = make_case(torch.float32, 6, 40)
    grads = []
    for overwrite in (False, True):
        leaf = case.logits.clone().requires_grad_()
        logits = (leaf * 2).view(2, 3, 40)
        before = logits.detach().clone()
        total, _, _ = softmax_xent(logits, case.targets.view(2, 3), overwrite=overwrite)
        assert torch.equal(logits.detach(), before) is not overwrite
        (total * 3).backward()
        grads.append(leaf.grad)
        if overwrite:
            with pytest.raises(RuntimeError, match=r"backward (a|through the graph a) second time"):
                total.backward()
    assert torch.equal(*grads)
    leaf = case.logits.clone().requires_grad_()
    softmax_xent(leaf, case.targets, overwrite=True)[0].backward()
    assert torch.equal(leaf.detach(), case.logits), "a leaf is somebody's parameter"


@pytest.mark.usefixtures("cpu_library")
def test_overwritten_logits_that_a_backward_needs_are_refused_by_torch() -> None:
    leaf = torch.randn(3, 4, requires_grad=True)
    logits = leaf.exp()  # whose backward reads its result
    total = softmax_xent(logits, torch.tensor([0, 1, 2]), overwrite=True)[0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@pytest.mark.usefixtures("cpu_library")
def test_a_second_backward_through_one_call_is_refused() -> None:
    logits = torch.randn(3, 4, requires_grad=True)
    total = softmax_xent(logits, torch.tensor([0, 1, 2]))[0]
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"softmax_xent: backward a second time .* call softmax_xent again"):
        total.backward()


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("reentrant", [False, True])
def test_it_may_be_recomputed_in_the_backward(reentrant: bool) -> None:
    case = make_case(torch.float32, 5, 12)

    def loss(x: Tensor) -> Tensor:
        return softmax_xent(x * 2, case.targets, expected=torch.tensor(0.5))[0]

    grads = []
    for way in (loss, lambda x: checkpoint(loss, x, use_reentrant=reentrant)):
        leaf = case.logits.clone().requires_grad_()
        ((way(leaf) + way(leaf)) * 0.5).backward()
        grads.append(leaf.grad)
    assert torch.equal(*grads)


@pytest.mark.usefixtures("cpu_library")
def test_a_gradient_of_its_gradient_is_refused() -> None:
    """It would be taken for nought wherever another term has one."""
    logits = torch.randn(3, 4, requires_grad=True)
    total = softmax_xent(logits, torch.tensor([0, 1, 2]))[0]
    with pytest.raises(RuntimeError, match=r"softmax_xent: backward with create_graph"):
        torch.autograd.grad(total.square(), logits, create_graph=True)


def test_of_no_tokens_and_of_none_counted_nothing_is_told(op: Op) -> None:
    one = torch.ones(())
    total, losses, lse, dlogits, stats, _ = op(torch.empty(0, 5), torch.empty(0, dtype=torch.int64), one, one, 0.1, IGNORED)
    assert (total.item(), stats.tolist()) == (0.0, [0.0] * 4)
    assert (losses.shape, lse.shape, dlogits.shape) == ((0,), (0,), (0, 5))
    total, losses, _, dlogits, stats, _ = op(torch.ones(2, 5), torch.full((2,), IGNORED), one, one, 0.1, IGNORED)
    assert (total.item(), losses.tolist(), stats.tolist()) == (0.0, [0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    assert dlogits.count_nonzero() == 0


@pytest.mark.usefixtures("cpu_library")
def test_the_mean_of_none_counted_is_nought() -> None:
    total, mean, _ = softmax_xent(torch.ones(2, 5), torch.full((2,), IGNORED))
    assert (total.item(), mean.item()) == (0.0, 0.0)


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype) -> None:
    case = make_case(dtype, 300, 700, 1e-3)
    before = torch.get_num_threads()
    runs = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            runs.append(softmax_xent_op(*case.arguments()))
    finally:
        torch.set_num_threads(before)
    for other in runs[1:]:
        assert all(torch.equal(one, two) for one, two in zip(runs[0], other, strict=True))


def ulps(got: Tensor, want: Tensor) -> float:
    _, exponent = torch.frexp(want)
    return float(((got.double() - want).abs() / torch.ldexp(torch.ones_like(want), exponent - 24)).max())


@pytest.mark.usefixtures("cpu_library")
def test_its_exp_is_within_two_units_in_the_last_place() -> None:
    """Of two logits, 0 and x ≤ -18, the sum is 1 in float32 and the second's gradient is e^x itself."""
    one = torch.ones(())
    for begin, end, allowed in ((-87.33, -18.0, 2), (-18.0, 0.0, 4)):  # nearer, the sum and the division round too
        x = torch.linspace(begin, end, 200_001)
        rows = torch.stack([torch.zeros_like(x), x], dim=1)
        dlogits = softmax_xent_op(rows, torch.zeros(len(x), dtype=torch.int64), one, one, 0.0, IGNORED)[3]
        exact = x.double().exp()
        assert ulps(dlogits[:, 1], exact if allowed == 2 else exact / (1 + exact)) <= allowed
    far = torch.tensor([[0.0, -87.4, -1e4, -torch.inf]])
    assert softmax_xent_op(far, torch.tensor([0]), one, one, 0.0, IGNORED)[3].tolist() == [[0.0] * 4]


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("view", [lambda leaf: leaf.view(2, 3, 8), lambda leaf: leaf[:], lambda leaf: leaf.view(-1, 8)])
def test_a_view_of_a_leaf_is_not_written_over(view) -> None:
    leaf = torch.randn(6, 8, generator=torch.Generator().manual_seed(3)).requires_grad_()
    before, logits = leaf.detach().clone(), view(leaf)
    softmax_xent(logits, torch.zeros(logits.shape[:-1], dtype=torch.int64), overwrite=True)[0].backward()
    assert torch.equal(leaf.detach(), before)
    assert leaf.grad.data_ptr() != leaf.data_ptr()


@pytest.mark.usefixtures("cpu_library")
def test_a_gradient_that_was_written_over_is_refused() -> None:
    """Its bytes lie where the logits lay: a second call on them, or any change, is another gradient."""
    targets = torch.tensor([0, 1, 2])
    logits = torch.randn(3, 8, generator=torch.Generator().manual_seed(4)).requires_grad_() * 1.0
    first = softmax_xent(logits, targets, overwrite=True)[0]
    second = softmax_xent(logits, targets, overwrite=True)[0]
    with pytest.raises(RuntimeError, match="changed between the call and its backward"):
        first.backward()
    del second
    logits = torch.randn(3, 8).requires_grad_() * 1.0
    total = softmax_xent(logits, targets, overwrite=True)[0]
    with torch.no_grad():
        logits.mul_(3.0)
    with pytest.raises(RuntimeError, match="overwrite=False"):
        total.backward()


@pytest.mark.usefixtures("cpu_library")
def test_logits_beside_a_checkpoint_that_computes_their_loss_again_are_refused_or_right() -> None:
    leaf = torch.randn(3, 8, generator=torch.Generator().manual_seed(5)).requires_grad_()
    targets, expected = torch.tensor([0, 1, 2]), torch.ones(())
    softmax_xent(leaf * 1.0, targets, expected=expected)[0].backward()
    wanted, leaf.grad = leaf.grad.clone(), None
    logits = leaf * 1.0

    def loss() -> torch.Tensor:
        return softmax_xent(logits, targets, expected=expected, overwrite=True)[0]

    total = torch.utils.checkpoint.checkpoint(loss, use_reentrant=False)
    with pytest.raises(RuntimeError, match="changed between the call and its backward"):
        total.backward()
    leaf.grad = None
    inside = torch.utils.checkpoint.checkpoint(
        lambda x: softmax_xent(x * 1.0, targets, expected=expected, overwrite=True)[0], leaf, use_reentrant=False
    )
    inside.backward()
    torch.testing.assert_close(leaf.grad, wanted)
