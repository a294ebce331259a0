"""How fast recorded logs go through the whole engine, and events through the TensorBoard reader.

Prints, by processor time, so that a busy machine says the same: pytest -m bench -s.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from pathlib import Path

import pytest

from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import replay_file
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from tests.unit.telemetry.event_kit import file_version, scalar

ROWS = 100_000
PRINTED = {
    "nanogpt": "iter {n}: loss {a:.4f}, time 210.15ms, mfu 31.2%, grad_norm {b:.3f}\n",
    "torchtitan": (
        "[rank0]:[titan] 2025-08-01 12:00:01,123 - root - INFO - \x1b[31mstep: {n:2}  \x1b[32mloss: {a:7.4f}  "
        "\x1b[38;2;180;60;0mgrad_norm: {b:7.4f}  \x1b[38;2;54;234;195mmemory: 45.00GiB(47.37%)  \x1b[34mtps: 12,345  "
        "\x1b[36mtflops: 70.01  \x1b[35mmfu: 7.08%\x1b[39m\n"
    ),
    "hugging-face": "{{'loss': {a:.4f}, 'grad_norm': {b:.6f}, 'learning_rate': 1e-05, 'epoch': 0.5}}\n",
    "bars": "\rEpoch 0:  10%|#   | {n}/100000 [00:50<07:30,  2.0it/s, v_num=1, loss={a:.4f}, grad_norm={b:.3f}]",
    "nested": '{{"step":{n},"train":{{"loss":{a:.6f},"grad_norm":{b:.6f}}}}}\n',
}


def write_log(folder: Path, form: str) -> Path:
    dice = random.Random(1)
    values = [(n, 2.0 + 300.0 / (n + 100) + dice.gauss(0.0, 0.02), 0.5 + dice.gauss(0.0, 0.02)) for n in range(1, ROWS + 1)]
    path = folder / f"log.{form}"
    if form == "csv":
        lines = [f"{n},{a:.6f},{b:.6f},,0.0003\n" for n, a, b in values]
        path.write_text("step,loss,grad_norm,loss_scale,lr\n" + "".join(lines))
    elif form == "metrics":
        lines = [f'{{"step":{n},"time_s":{1.7e9 + n},"loss":{a:.6f},"grad_norm":{b:.6f}}}\n' for n, a, b in values]
        path.write_text("".join(lines))
    elif form == "megatron":
        line = " iteration {:8d}/ 100000 | consumed samples: {} | elapsed time per iteration (ms): 812.3 | "
        line += "learning rate: 3.0E-04 | lm loss: {:.6E} | loss scale: 1.0 | grad norm: {:.3f} | "
        line += "number of skipped iterations:   0 |\n"
        path.write_text("".join(line.format(n, 256 * n, a, b) for n, a, b in values))
    elif form in PRINTED:
        path.write_text("".join(PRINTED[form].format(n=n, a=a, b=b) for n, a, b in values))
    elif form == "golden":
        series = {"lm loss": {n: round(a, 5) for n, a, _ in values}, "grad-norm": {n: round(b, 5) for n, _, b in values}}
        path.write_text(json.dumps({name: {"start_step": 1, "values": told} for name, told in series.items()}, indent=4))
    else:
        with path.open("wb") as file:
            file.write(file_version())
            for n, a, b in values:
                wall_s = 1.7e9 + 0.37 * n
                file.write(scalar(n, "lm-loss-training/lm loss", a, wall_s) + scalar(n, "grad-norm/grad-norm", b, wall_s))
                file.write(scalar(256 * n, "lm-loss-training/lm loss vs samples", a, wall_s))
    return path


@pytest.mark.bench
@pytest.mark.parametrize("form", ["csv", "metrics", "megatron", "tensorboard", *PRINTED, "golden"])
def test_rows_per_second(tmp_path: Path, form: str) -> None:
    path = write_log(tmp_path, form)
    began_s = time.process_time()
    _, reader = open_log(path)
    count = sum(1 for _ in read_to_end(reader))
    read_s = time.process_time() - began_s
    result = replay_file(path, load_policy(shipped_policy_path("default")))
    seconds = time.process_time() - began_s - read_s
    events = f" = {3 * ROWS / read_s:,.0f} events/s" if form == "tensorboard" else ""
    print(f"\n{form}: reading {count / read_s:,.0f} rows/s{events}; through the whole engine {ROWS / seconds:,.0f} rows/s")
    assert (count, result.rows, result.damaged) == (ROWS, ROWS, 0)


@pytest.mark.bench
def test_memory_of_a_long_log(tmp_path: Path) -> None:
    path = write_log(tmp_path, "csv")
    policy = load_policy(shipped_policy_path("default"))
    tracemalloc.start()
    replay_file(path, policy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"\nreplay: at most {peak / 2**20:.1f} MiB held over {ROWS:,} rows")
