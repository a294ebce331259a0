"""The CUDA kernels' own sources against float64 on a machine without a GPU (tests/cuda_ext/emulated)."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuda_ext.ops.adamw_step  # noqa: F401  declares the op
from cuda_ext.build import BuildError
from cuda_ext.compilers import find_compiler
from tests.cuda_ext import add_norm_grid, many_tensors, softmax_xent_grid
from tests.cuda_ext.emulated import ops
from tests.cuda_ext.emulated.library import emulated_library

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def emulated() -> None:
    """Compiled once for each change of a source. That it does not compile is no reason to skip."""
    try:
        emulated_library()
    except BuildError as error:
        pytest.skip(error.sentence)


# A warp's row with one pack a thread and with four; a block's; two blocks' (an A100: one block's); the widest; one of any width.
NORM_SHAPES = ((5, 8), (9, 264), (70, 768), (20, 1024), (5, 1288), (4, 4096), (3, 8200), (2, 16384), (2, 16392), (5, 33))
NORM_DTYPES = (add_norm_grid.DTYPES[0], add_norm_grid.DTYPES[2], add_norm_grid.DTYPES[3])
NORM_KINDS = ((True, True, False), (False, False, True), (True, False, False), (True, True, True))  # residual, bias, RMSNorm


def norm_cases() -> list[Any]:
    """Every combination; all but a twelfth of them are slow."""
    cases = itertools.product(NORM_SHAPES, NORM_DTYPES, NORM_KINDS)
    return [pytest.param(*case, marks=() if number % 13 == 0 else pytest.mark.slow) for number, case in enumerate(cases)]


@pytest.mark.parametrize(("shape", "dtypes", "kind"), norm_cases())
def test_add_norm(shape: tuple[int, int], dtypes: tuple[torch.dtype, torch.dtype], kind: tuple[bool, bool, bool]) -> None:
    case = add_norm_grid.make_case(*dtypes, *shape, *kind)
    forward = ops.add_norm(*case.forward())
    add_norm_grid.check(forward, ops.add_norm_backward(*case.backward(forward)), case)
    if shape[1] > 8192:
        with ops.emulated_device(**ops.A100 | {"processors": 2}):
            add_norm_grid.check(forward, ops.add_norm_backward(*case.backward(forward)), case)


def test_add_norm_of_rows_that_begin_anywhere() -> None:
    case = add_norm_grid.askew(add_norm_grid.make_case(torch.bfloat16, torch.bfloat16, 5, 264))
    forward = ops.add_norm(*case.forward())
    add_norm_grid.check(forward, ops.add_norm_backward(*case.backward(forward)), case)


def test_add_norm_of_more_blocks_than_one_adds_the_statistics_of() -> None:
    """263 blocks of 16 rows, in random order: the statistics have the same bits each time."""
    case = add_norm_grid.make_case(torch.bfloat16, torch.bfloat16, 4200, 8)
    forward = ops.add_norm(*case.forward())
    add_norm_grid.check(forward, ops.add_norm_backward(*case.backward(forward)), case)
    assert torch.equal(ops.add_norm(*case.forward())[4], forward[4])


@pytest.mark.parametrize("width", [40, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_add_norm_counts_what_is_not_finite(dtype: torch.dtype, width: int) -> None:
    case = add_norm_grid.odd_values("cpu", dtype, width)
    y, h, _, _, stats = ops.add_norm(*case.forward())
    assert stats[:2].isnan().all()
    assert stats[2] == 5 == (~h.isfinite()).sum()
    assert y.isnan().any(1).tolist() == [False, True, False, True, False, True, False]
    case.x[1, 2], case.x[5, 0] = 0.0, 0.0
    infinite = ops.add_norm(*case.forward())[4]
    assert infinite.tolist() == [float("inf"), float("inf"), 3.0]


def test_it_asks_the_emulated_device_beside_a_cuda_runtime_in_the_same_process(tmp_path: Path) -> None:
    """As under a torch that is built for CUDA. This one knows no kernel and answers by error 98."""
    asked = ("cudaDeviceGetAttribute", "cudaFuncSetAttribute", "cudaOccupancyMaxActiveBlocksPerMultiprocessor")
    source, runtime = tmp_path / "runtime.c", tmp_path / "runtime.so"
    source.write_text("".join(f"int {name}() {{ return 98; }}\n" for name in asked), encoding="utf-8")
    command = [find_compiler("cpu").path, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(runtime)]
    subprocess.run(command, check=True, timeout=60)
    code = (
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
        "plans = ctypes.CDLL(sys.argv[2]).emulated_norm_plans\n"
        "plans.restype = ctypes.c_char_p\n"
        "print(plans(ctypes.c_int64(8), ctypes.byref(ctypes.c_char_p())))"
    )
    words = [sys.executable, "-c", code, str(runtime), emulated_library()._name]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout == "None\n"


# A warp's row; a block's; of a cluster of 2, of 4; and each with rows that begin anywhere.
XENT_SHAPES = ((1, 1), (5, 2), (9, 33), (40, 256), (5, 2056), (4, 4097), (5, 20_000))


@pytest.mark.parametrize(("rows", "columns"), XENT_SHAPES)
@pytest.mark.parametrize("dtype", softmax_xent_grid.DTYPES)
def test_softmax_xent(dtype: torch.dtype, rows: int, columns: int) -> None:
    case = softmax_xent_grid.make_case(dtype, rows, columns, 1e-3)
    softmax_xent_grid.check(ops.softmax_xent(*case.arguments()), case)
    if rows >= 8:
        odd = softmax_xent_grid.with_odd_values(dtype, columns)
        softmax_xent_grid.check(ops.softmax_xent(*odd.arguments()), odd)


@pytest.mark.parametrize("columns", [33, 2056, 5001])
@pytest.mark.parametrize("dtype", softmax_xent_grid.DTYPES)
def test_softmax_xent_counts_its_tokens_and_puts_the_gradient_where_it_is_asked_to(dtype: torch.dtype, columns: int) -> None:
    case = softmax_xent_grid.make_case(dtype, 12, columns, 1e-3)
    arguments = (case.targets, None, None, 1e-3, softmax_xent_grid.IGNORED)
    aside = ops.softmax_xent(case.logits, *arguments)
    counted = int((case.targets != softmax_xent_grid.IGNORED).sum())
    explicit = softmax_xent_grid.Case(case.logits, case.targets, torch.tensor(1 / counted), torch.tensor(1.0), 1e-3)
    softmax_xent_grid.check(aside, explicit)
    none = ops.softmax_xent(case.logits, *arguments, wants_gradient=False)
    assert none[3].numel() == 0
    over = ops.softmax_xent(case.logits.clone(), *arguments, over=True)
    for place, result in enumerate(aside):
        assert torch.equal(over[place], result)
        assert place == 3 or torch.equal(none[place], result)


@pytest.mark.parametrize("scale", [1e4, 3e6, 1e30, 1.5e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_xent_of_logits_of_any_size(dtype: torch.dtype, scale: float) -> None:
    """Only differences count: the powers' origin is a whole number, and beyond 2^30 neighbours are nought."""
    case = softmax_xent_grid.make_case(dtype, 6, 300, 0.0)
    case.logits.copy_((case.logits.float().clamp(-3, 3) / 3 * scale).to(dtype))
    case.logits[0] = case.logits[0].abs().neg()
    case.logits[5, 1:] = case.logits[5, 0]
    case.targets[5] = 3
    softmax_xent_grid.check(ops.softmax_xent(*case.arguments()), case)


@pytest.mark.parametrize("expected", [-2.0, 0.0, 65536.0])
@pytest.mark.parametrize("dtype", softmax_xent_grid.DTYPES)
def test_softmax_xent_for_any_gradient_of_its_total(dtype: torch.dtype, expected: float) -> None:
    case = softmax_xent_grid.make_case(dtype, 6, 300, 0.0)
    case.expected.fill_(expected)
    softmax_xent_grid.check(ops.softmax_xent(*case.arguments()), case)


SMALL = {"shared": 70_000, "shared_of_block": 34_000}


@pytest.mark.parametrize(
    "device",
    [SMALL | {"processors": 8}, ops.A100 | {"shared_of_block": 20_000}, SMALL | {"clusters_fail": True}],
    ids=["clusters", "no clusters", "clusters that CUDA says nothing of"],
)
@pytest.mark.parametrize("dtype", softmax_xent_grid.DTYPES)
def test_softmax_xent_in_little_shared_memory(dtype: torch.dtype, device: dict[str, int]) -> None:
    """A cluster takes a row; without clusters, and where CUDA does not say how many run, the row is read twice."""
    case = softmax_xent_grid.make_case(dtype, 5, 30_001, 1e-3)
    with ops.emulated_device(**device):
        softmax_xent_grid.check(ops.softmax_xent(*case.arguments()), case)


@pytest.mark.parametrize("dtype", many_tensors.DTYPES)
def test_grad_stats(dtype: torch.dtype) -> None:
    grads = many_tensors.drawn_each(many_tensors.SIZES, 3, torch.device("cpu"), dtype)
    grads.insert(1, torch.zeros(0, dtype=dtype))
    grads[3] = grads[3] * torch.nan
    found = ops.grad_stats(grads, torch.tensor(0.5))
    torch.testing.assert_close(found, many_tensors.grad_stats_in_double(grads, 0.5), rtol=1e-6, atol=0, equal_nan=True)


def test_grad_stats_of_a_tensor_whose_slots_several_blocks_sum() -> None:
    """520 chunks are two parts; the tensors about it have one."""
    grads = [torch.full((5,), 2.0), torch.full((520 * many_tensors.CHUNK - 3,), 0.5), torch.full((9000,), 3.0)]
    grads[1][-1], grads[1][1] = -7.0, torch.inf
    for _ in range(2):  # in any order of the blocks
        found = ops.grad_stats(grads, torch.tensor(1.0))
        torch.testing.assert_close(found, many_tensors.grad_stats_in_double(grads, 1.0), rtol=1e-12, atol=0)


@pytest.mark.usefixtures("cpu_library")
@pytest.mark.parametrize("grad_dtype", [torch.float32, torch.bfloat16])
def test_adamw_step(grad_dtype: torch.dtype) -> None:
    """To the bit what the CPU's kernel makes of it."""
    settings = many_tensors.control(torch.device("cpu"))
    sizes = (*many_tensors.SIZES, 0)
    before = many_tensors.optimizer_state(torch.device("cpu"), sizes, grad_dtype)
    own, other = before.copy(), before.copy()
    found = ops.adamw_step(*own.arguments(settings))
    torch.ops.sentinel.adamw_step(*other.arguments(settings))
    assert many_tensors.bytes_of(own.changeable) == many_tensors.bytes_of(other.changeable)
    torch.testing.assert_close(found, many_tensors.step_stats_in_double(before, own), rtol=1e-5, atol=0)


def test_scale() -> None:
    x = torch.randn(10_001, generator=torch.Generator().manual_seed(1)).bfloat16()
    wanted: Tensor = (x.float() / 3).bfloat16()
    ops.scale_(x[1:], torch.tensor(1 / 3))
    torch.testing.assert_close(x[1:], wanted[1:])
