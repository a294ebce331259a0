"""Tokens a second beside a plain loop: prints, asserts nothing about time. The figures of trainer/README.md come from here."""

from __future__ import annotations

import pytest
import torch

from tests.bench.test_telemetry_overhead import run

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]
PROGRAM = "tests.bench.trainer_speed"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_cpu(precision: str) -> None:
    words = ("--preset", "tiny", "--set", f"numerics.precision={precision}")
    run(1, words, {"CUDA_VISIBLE_DEVICES": ""}, PROGRAM)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    run(1, ("--preset", "gpt2-124m", "--set", "data.batch_size=64", "parallel.micro_batch=64"), {}, PROGRAM)
