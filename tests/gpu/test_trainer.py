"""The trainer's step on a GPU, sharded by FSDP2 over NCCL in a world of one rank: on our kernels as on plain PyTorch, its logits
in chunks, the fp16 scaler, a NaN and a flipped bit, which attention runs. Whole runs are in tests/gpu/live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

NAMES = ("loss", "grad_norm", "param_norm", "update_norm", "adam_v_norm", "activation_max/block-00", "logit_max")
STEPS = 8


@pytest.fixture(scope="module")
def world(trained_on: Any) -> Iterator[Any]:
    """Joined as the trainer joins it. What the trainer imports does not come with torch: without it there is nothing to try."""
    for module in ("pydantic", "yamlcore"):
        pytest.importorskip(module)
    from trainer.world import join_world

    yield join_world()
    dist.destroy_process_group()


def stepping_on(world: Any, precision: str, *, fused: bool, **parallel: Any) -> tuple[Any, Any]:
    """A small model under the update, and a batch on the GPU."""
    from tests.unit.trainer.stepping import HYPER, Stepping, batches
    from trainer.config.loading import load_config

    config = load_config("micro", None, ["data.seq_len=16"])
    stepping = Stepping(world, config, precision, fused=fused, parallel=parallel)
    stepping.optimizer.set(replace(HYPER, lr=1e-3))
    return stepping, tuple(part.to(world.device) for part in batches(1, size=4)[0])


def trained(
    world: Any, precision: str, *, fused: bool, compiled: bool, chunk: int | None = None
) -> tuple[list[list[float]], dict[str, torch.Tensor]]:
    """What each step on one batch told, and the parameters after the last."""
    stepping, batch = stepping_on(world, precision, fused=fused, compile=compiled, xent_chunk=chunk)
    lines = []
    for _ in range(STEPS):
        telemetry = stepping.step(batch)
        lines.append([telemetry[name].item() for name in NAMES])
    return lines, {name: value for name, value in stepping.weights().items() if name.startswith("model.")}


@pytest.mark.parametrize(("precision", "compiled", "off"), [("fp32", False, 2e-4), ("bf16", False, 5e-2), ("bf16", True, 5e-2)])
def test_steps_on_our_kernels_go_where_plain_torch_goes(world: Any, precision: str, compiled: bool, off: float) -> None:
    plain, wanted = trained(world, precision, fused=False, compiled=False)
    own, found = trained(world, precision, fused=True, compiled=compiled)
    assert own == [pytest.approx(line, rel=off) for line in plain]
    assert own[-1][0] < own[0][0], "it must have learned something, or equal steps mean little"
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert (found[name] - value).norm() <= off * value.norm(), name


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("precision", "off"), [("fp32", 2e-4), ("bf16", 5e-2), ("fp16", 2e-2)])
def test_logits_in_chunks_go_where_all_logits_at_once_go(world: Any, precision: str, off: float, fused: bool) -> None:
    whole, wanted = trained(world, precision, fused=fused, compiled=False)
    parts, found = trained(world, precision, fused=fused, compiled=False, chunk=20)
    assert parts == [pytest.approx(line, rel=off) for line in whole]
    for name, value in wanted.items():
        assert (found[name] - value).norm() <= off * value.norm(), name


@pytest.mark.parametrize("chunk", [None, 20])
def test_an_overflow_in_fp16_is_left_out_and_halves_the_scale(world: Any, chunk: int | None) -> None:
    from tests.unit.trainer.stepping import same

    stepping, batch = stepping_on(world, "fp16", fused=True, xent_chunk=chunk)
    stepping.step(batch)
    before = {name: value.cpu() for name, value in stepping.weights().items()}
    stepping.scaler.set_scale(2.0**40)
    told = stepping.step(batch)
    assert (told["skipped"].item(), told["overflow"].item(), stepping.scaler.scale.item()) == (1, 1, 2.0**39)
    assert same(before, {name: value.cpu() for name, value in stepping.weights().items()})
    stepping.scaler.set_scale(1024.0)
    assert stepping.step(batch)["skipped"].item() == 0


def test_a_nan_gradient_changes_no_bit_and_is_counted(world: Any) -> None:
    from tests.unit.trainer.stepping import same
    from trainer.fault_injection.tensors import poison_gradient

    stepping, batch = stepping_on(world, "bf16", fused=True)
    stepping.step(batch)
    before = {name: value.cpu() for name, value in stepping.weights().items()}
    told = stepping.step(batch, after_backward=lambda: poison_gradient(stepping.optimizer, float("nan")))
    assert (told["skipped"].item(), told["nonfinite_count"].item()) == (1, 1)
    assert same(before, {name: value.cpu() for name, value in stepping.weights().items()})


def test_a_flipped_bit_shows_in_the_line_behind_its_step(world: Any) -> None:
    """On one rank: a line tells of the state that the update before it left."""
    from trainer.fault_injection.tensors import flip_bit

    stepping, batch = stepping_on(world, "fp32", fused=True)
    stepping.step(batch)
    healthy = stepping.step(batch)["param_norm"].item()
    flip_bit(stepping.optimizer)
    stepping.step(batch)
    assert not stepping.step(batch)["param_norm"].item() < 100 * healthy, "an exponent's highest bit: huge, or not finite"


def test_cudnns_attention_runs_where_it_is_preferred(world: Any) -> None:
    """By the order in force; on other GPUs torch's own order stays."""
    from trainer.model.attention_order import CUDNN_CAPABILITIES, put_in_order

    if world.device.type != "cuda":
        pytest.skip("rehearsed on a CPU, which has one kernel")
    if torch.cuda.get_device_capability() not in CUDNN_CAPABILITIES:
        pytest.skip(f"compute capability {torch.cuda.get_device_capability()}: torch's own order is left alone")
    heads = [torch.randn(2, 2, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    for choice, kernel in (("auto", "Cudnn"), ("flash", "Flash")):
        put_in_order(choice, world.device)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        assert kernel.lower() in type(mixed.grad_fn).__name__.lower()
    put_in_order("torch", world.device)
