"""What it costs a trainer to tell everything: step time with all telemetry, with none, and told naively, taking turns in one run;
then what a step line costs whoever writes it and whoever reads it. Nothing about time is asserted."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from sentinel.client import Stream
from sentinel.model.readings import StepReading
from sentinel.telemetry.metrics_jsonl import MetricsStream

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "tests.bench.telemetry_overhead"
ON_CPU = ("--preset", "tiny")
# One GPU's share of the recipe; the optimizer, which most of the statistics are about, costs the same as in the whole of it.
ON_GPU = ("--preset", "gpt2-124m", "--set", "data.batch_size=64", "evaluation.every=0")
LINES = 20_000
OF_A_RUN = (
    "loss", "grad_norm", "nonfinite_count", "activation_norm", "logit_max", "param_norm", "clip_coef", "skipped", "update_norm",
    "adam_v_norm", "adam_v_max", "tokens_per_s", "step_time_s", "clip_fraction", "mfu", "peak_memory_bytes", "lr", "weight_decay",
    "data_time_s",
)  # fmt: skip
OF_TWELVE_LAYERS = tuple(
    f"{kind}/block-{layer:02d}" for kind in ("grad_norm", "activation_norm", "activation_max") for layer in range(12)
)


def run(ranks: int, words: tuple[str, ...], environ: dict[str, str]) -> None:
    start = [sys.executable, "-m"]
    if ranks > 1:
        start += ["torch.distributed.run", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d"]
        start += ["--rdzv-endpoint", "localhost:0", "-m"]
    outside = {key: value for key, value in os.environ.items() if not key.startswith("SENTINEL_")}
    told = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ}
    done = subprocess.run([*start, PROGRAM, *words], cwd=ROOT, env=outside | told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout.rstrip())


@pytest.mark.parametrize("ranks", [1, 2])
def test_on_a_cpu(ranks: int) -> None:
    run(ranks, ON_CPU, {"CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    run(1, ON_GPU, {})


@pytest.mark.parametrize("names", [OF_A_RUN, OF_A_RUN + OF_TWELVE_LAYERS], ids=["without layers", "with twelve layers"])
def test_a_step_line(tmp_path: Path, names: tuple[str, ...]) -> None:
    dice = random.Random(1)
    rows = [{name: dice.random() for name in names} for _ in range(100)]
    stream, reader = Stream(tmp_path / "attempts" / "0001" / "metrics.jsonl", 1), MetricsStream(tmp_path, 1)
    began_s = time.process_time()
    for step in range(1, LINES + 1):
        stream.step(step, samples=[[step * 512, step * 512 + 512]], **rows[step % 100])
    written_s = time.process_time() - began_s
    began_s, read = time.process_time(), 0
    while read == 0 or reader.has_more:
        read += sum(1 for reading in reader.poll(0.0) if type(reading) is StepReading)
    read_s = time.process_time() - began_s
    assert read == LINES
    size = stream.path.stat().st_size / LINES
    print(
        f"\n{len(names)} numbers: {size:.0f} bytes, {written_s / LINES * 1e6:.0f} us to write, {LINES / read_s:,.0f} lines/s read"
    )
