"""How fast a checkpoint is verified: its digests alone, and with the values of its tensors counted on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.tensors.floats import FORMATS, look
from sentinel.checkpoints.verification import verify_checkpoint
from tests.unit.checkpoints.counted import commit

FILE_BYTES = 256 << 20
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F8_E4M3": torch.float8_e4m3fn, "F64": torch.float64}
ROUNDS = 5


def fastest(work: Callable[[], object]) -> float:
    """In seconds of the processor: the disk of another machine is another matter."""
    taken = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        work()
        taken.append(time.process_time() - began_s)
    return min(taken)


@pytest.mark.bench
@pytest.mark.parametrize("name", TYPES)
def test_values_are_counted_beside_the_digest(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    count = FILE_BYTES // FORMATS[name].value_bytes
    save_file({"w": (torch.randn(count) * 0.02).to(TYPES[name])}, folder / "model.safetensors")
    commit(tmp_path, 1)
    data = (folder / "model.safetensors").read_bytes()[-(64 << 20) :]
    blocks = [data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    alone = len(data) / fastest(lambda: [look(block, FORMATS[name], seek_number=False) for block in blocks]) / 1e9
    digests = FILE_BYTES / fastest(lambda: verify_checkpoint(folder)) / 1e9
    both = FILE_BYTES / fastest(lambda: verify_checkpoint(folder, Counting(folder))) / 1e9
    with capsys.disabled():
        print(f"\n{name}: sha256 alone {digests:.2f} GB/s, with the count {both:.2f} GB/s (the count alone {alone:.2f} GB/s)")
