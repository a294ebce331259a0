"""A run that is cut short and resumed ends equal, to the bit, to one that was not: in bf16 and fp16, logits in chunks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gpu.live.conftest import Typed

STEPS, EVERY = 12, 6
SIZES = (f"schedule.steps={STEPS}", f"checkpoint.every={EVERY}", "data.batch_size=4", "data.seq_len=64", "evaluation.batches=1")


def state_of(folder: Path, step: int) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in (folder / f"checkpoints/step-{step:08d}").iterdir() if path.suffix == ".distcp"
    }


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_resume_is_the_same_to_the_bit(typed: Typed, tmp_path: Path, precision: str) -> None:
    more = ("numerics.deterministic=true", f"numerics.precision={precision}", "parallel.micro_batch=2", "parallel.xent_chunk=100")
    words = ("trainer", "--preset", "micro", "--out-dir", str(tmp_path), "--set", *SIZES, *more)
    typed(*words)
    unhurt = state_of(tmp_path, STEPS)
    assert unhurt
    shutil.rmtree(tmp_path / f"checkpoints/step-{STEPS:08d}")
    told = typed(*words, "--resume").stdout
    assert f"from step {EVERY}" in told
    assert state_of(tmp_path, STEPS) == unhurt
