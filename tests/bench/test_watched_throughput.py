"""What watching takes of training: steps a second of the bundled trainer, two ranks on two processors, watched and alone.

    make bench-throughput      PAIRS=5 STEPS=600 by default

There and back (watched, alone, alone, watched): what else the machine does falls on both. Both start torchrun; the supervisor
is as `sentinel run` is by default, page and TensorBoard included. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.spread import Loss, there_and_back
from tests.compare.__main__ import BATCH, ROOT, Run

PAIRS = int(os.environ.get("PAIRS", "5"))
STEPS = int(os.environ.get("STEPS", "600"))
SETTLED = 100  # steps before it is measured: the launch is no watching
WAYS = ("watched", "alone")
SIZES = ("data.seq_len=128", f"data.batch_size={BATCH}", "checkpoint.every=200", "parallel.threads=1")


@pytest.mark.bench
def test_steps_a_second_watched_and_alone(tmp_path: Path) -> None:
    lost, paces = [], []
    for pair in range(PAIRS):
        seen = [(way, pace(tmp_path / f"{pair}-{turn}-{way}", way)) for turn, way in enumerate(there_and_back(WAYS))]
        watched, alone = (sum(steps_s for its, steps_s in seen if its == way) / 2 for way in WAYS)
        lost.append(100 * (1 - watched / alone))
        paces.append(f"{watched:.1f} of {alone:.1f}")
    print(f"throughput  steps a second watched, of those alone: {'; '.join(paces)}")
    print(f"throughput  training that is watched {Loss.of(lost).words('%')}; bar 1 %; load {os.getloadavg()[0]:.1f}")


def pace(folder: Path, way: str) -> float:
    """Steps a second, from step SETTLED to the last."""
    folder.mkdir()
    agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node=2"]
    trainer = ["-m", "trainer", "--preset", "micro", "--set", *SIZES, f"schedule.steps={STEPS}"]
    supervised = [sys.executable, "-m", "sentinel", "run", "--policy", "default", "--run-dir", str(folder / "run"), "--"]
    command = [*supervised, *agent, *trainer] if way == "watched" else [*agent, *trainer, "--out-dir", str(folder / "run")]
    dropped = ("PYTHONDONTWRITEBYTECODE", "SENTINEL_RUN_DIR", "SENTINEL_ATTEMPT")
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    environ |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    at_s = {step: time_s for time_s, step, _ in Run(way, folder, "none").steps()}
    return (STEPS - SETTLED) / (at_s[STEPS] - at_s[SETTLED])
