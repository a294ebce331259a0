"""The trainer's step on a GPU, sharded by FSDP2 over NCCL in a world of one rank: on our kernels as on plain PyTorch."""

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
def world(cuda: Any) -> Iterator[Any]:
    """Joined as the trainer joins it. What the trainer imports does not come with torch: without it there is nothing to try."""
    for module in ("pydantic", "yamlcore"):
        pytest.importorskip(module)
    from trainer.world import join_world

    yield join_world()
    dist.destroy_process_group()


def trained(world: Any, precision: str, *, fused: bool, compiled: bool) -> tuple[list[list[float]], dict[str, torch.Tensor]]:
    """What each step on one batch told, and the parameters after the last."""
    from tests.unit.trainer.stepping import HYPER, Stepping, batches
    from trainer.config.loading import load_config

    config = load_config("micro", None, ["data.seq_len=16"])
    stepping = Stepping(world, config, precision, fused=fused, parallel={"compile": compiled})
    stepping.optimizer.set(replace(HYPER, lr=1e-3))
    batch = tuple(part.to(world.device) for part in batches(1, size=4)[0])
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
