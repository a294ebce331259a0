"""100 MB of each format through `sentinel replay`, as a person types it: processor seconds and the most memory it ever held.

20 MB of TensorBoard, whose checksums take long to write. pytest -m bench -s tests/bench/test_replay_memory.py
"""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.telemetry.event_kit import file_version, scalar

BYTES = 100_000_000
EVENT_BYTES = 20_000_000
PEAK_MIB_MAX = 300

# The command, and the peak of its own memory: what `wait4` knows begins with the memory of the process that forked it.
AND_ITS_PEAK = """
import atexit, sys
from sentinel.cli import main
peak = lambda: next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
atexit.register(lambda: sys.stderr.write(peak()))
main()
"""

ROWS: dict[str, Callable[[int, float], str]] = {
    "csv": lambda n, loss: f"{n},{loss:.6f},0.5,,0.0003\n",
    "metrics": lambda n, loss: f'{{"step":{n},"time_s":{1.7e9 + n},"loss":{loss:.6f},"grad_norm":0.5}}\n',
    "megatron": lambda n, loss: (
        f" iteration {n:8d}/ 9000000 | consumed samples: {256 * n} | elapsed time per iteration (ms): 812.3 | "
        f"learning rate: 3.0E-04 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.5 |\n"
    ),
    "text": lambda n, loss: f"step:{n}/9000000 train_loss:{loss:.4f} train_time:{n}ms step_avg:100.0ms\n",
    "trainer-state": lambda n, loss: f'{"," if n > 1 else ""}{{"step": {n}, "loss": {loss:.4f}, "grad_norm": 0.5}}\n',
}


def write_log(path: Path, form: str) -> None:
    dice = random.Random(1)
    noise = [dice.gauss(0.0, 0.02) for _ in range(4096)]
    first = 1
    with gzip.open(path, "wb", 1) if form == "csv.gz" else path.open("wb") as file:
        file.write({"csv": b"step,loss,grad_norm,loss_scale,lr\n", "csv.gz": b"step,loss,grad_norm,loss_scale,lr\n",
                    "trainer-state": b'{"log_history": [', "tensorboard": file_version()}.get(form, b""))  # fmt: skip
        written = 0
        while written < (EVENT_BYTES if form == "tensorboard" else BYTES):
            part = []
            for step in range(first, first + 10_000):
                loss = 2.0 + 300.0 / (step + 100) + noise[step & 4095]
                if form == "tensorboard":
                    part += [scalar(step, "train/loss", loss, 1.7e9 + step), scalar(step, "train/grad_norm", 0.5, 1.7e9 + step)]
                else:
                    part.append(ROWS[form.removesuffix(".gz")](step, loss).encode())
            first += 10_000
            block = b"".join(part)
            file.write(block)
            written += len(block)
        file.write(b"]}" if form == "trainer-state" else b"")


@pytest.mark.bench
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", ["csv.gz", "metrics", "megatron", "tensorboard", "trainer-state", "text"])
def test_memory_is_bounded(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("events.out.tfevents.1.x" if form == "tensorboard" else f"log.{form}")
    write_log(path, form)
    before = os.times()
    done = subprocess.run([sys.executable, "-c", AND_ITS_PEAK, "replay", str(path)], capture_output=True, text=True, check=True)
    after = os.times()
    used_s = after.children_user + after.children_system - before.children_user - before.children_system
    peak_mib = int(done.stderr.splitlines()[-1].split()[1]) / 1024
    print(f"\n{form}: {done.stdout.splitlines()[-1]}; {used_s:.0f} s of a core, at most {peak_mib:.0f} MiB")
    path.unlink()
    assert peak_mib < PEAK_MIB_MAX
