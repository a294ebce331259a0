"""What verifying a checkpoint before a resume takes, by the policy's word, beside `sha256sum` on all cores: `make bench-verify`.

Files of GIB gibibytes in BF16, on the disk of DIR (by default the temporary one). The page cache is dropped before every
measurement where that is allowed; where it is not, the table says so and the figures are of memory.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentinel.checkpoints.memory import STRETCH_BYTES, draw_stretches
from sentinel.checkpoints.recall import Recall
from sentinel.clock import SystemClock
from sentinel.model.saved import How
from sentinel.telemetry.saved_numbers import check_bytes
from tests.bench.spread import in_words
from tests.unit.checkpoints.counted import commit

NAME = "step-00000001"
FILE_BYTES = 256 << 20
LARGE_BYTES, LARGE_FILE_BYTES = 1_500 * 10**9, 5 * 10**9
ROUNDS = 3
CORES = len(os.sched_getaffinity(0))


class Later(SystemClock):
    """On which the files were not written only just now: what is so young is not remembered."""

    def wall_s(self) -> float:
        return super().wall_s() + 60.0


def save(run_dir: Path, gib: float) -> Path:
    folder = run_dir / "checkpoints" / NAME
    folder.mkdir(parents=True)
    values = (torch.randn(FILE_BYTES // 2) * 0.02).to(torch.bfloat16)
    for number in range(int(gib * (1 << 30)) // FILE_BYTES):
        values[0] = number
        save_file({"w": values}, folder / f"model-{number:05d}.safetensors")
    commit(run_dir, 1)
    os.sync()
    return folder


def drop_cache() -> bool:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def taken(work: Callable[[], object]) -> float:
    drop_cache()
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


def shell(folder: Path, command: str) -> Callable[[], object]:
    return lambda: subprocess.run(command, shell=True, check=True, cwd=folder, stdout=subprocess.DEVNULL)


@pytest.mark.bench
def test_verification_by_its_word_beside_the_naive_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gib = float(os.environ.get("GIB", "4"))
    run_dir = Path(os.environ.get("DIR", tmp_path)) / "bench-verify"
    folder = save(run_dir, gib)

    def check(how: How, readers: int, forget: bool = False) -> Callable[[], object]:
        def work() -> object:
            if forget:
                shutil.rmtree(run_dir / "verified", ignore_errors=True)
            return check_bytes(folder, Recall(run_dir, NAME, how, "verify/2/1", Later()), readers=readers)

        return work

    plain, full = f"read and thrown away, {CORES} at a time", f"full, {CORES} readers"
    ways = {
        plain: shell(folder, f"ls *.safetensors | xargs -n 1 -P {CORES} cat"),
        f"sha256sum, {CORES} at a time": shell(folder, f"ls *.safetensors | xargs -n 1 -P {CORES} sha256sum"),
        "full, one reader": check("full", 1),
        full: check("full", CORES),
        "read behind training for the first time (one reader)": check("remembered", 1, forget=True),
        f"sampled, {CORES} readers": check("sampled", CORES),
        "remembered": check("remembered", CORES),
    }
    try:
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, work in ways.items():
                seconds[way].append(taken(work))
        is_cold = drop_cache()
    finally:
        shutil.rmtree(run_dir)
    total = int(gib * (1 << 30)) // FILE_BYTES * FILE_BYTES
    with capsys.disabled():
        print(f"\n{total / 1e9:.1f} GB in {total // FILE_BYTES} files, {CORES} cores, cache {'' if is_cold else 'not '}dropped")
        for way, took in seconds.items():
            middle = statistics.median(took)
            spread = f"{min(took):.2f} to {max(took):.2f}"
            print(f"{way}: {middle:.2f} s ({spread}), {total / middle / 1e9:.2f} GB/s of the checkpoint")
        shares = [100 * read / verified for read, verified in zip(seconds[plain], seconds[full], strict=True)]
        print(f"{full}, of what the disk reads: {in_words(shares, '%')}")
        drawn, pace = LARGE_BYTES / LARGE_FILE_BYTES * sampled_bytes(LARGE_FILE_BYTES), total / statistics.median(seconds[plain])
        print(f"1.5 TB that is remembered, in files of 5 GB: {drawn / 1e9:.0f} GB are sampled, {drawn / pace:.0f} s at that pace")


def sampled_bytes(size: int) -> int:
    """How much `sampled` reads of a file of so many bytes."""
    return sum(min(STRETCH_BYTES, size - number * STRETCH_BYTES) for number in draw_stretches(size, "a file"))
