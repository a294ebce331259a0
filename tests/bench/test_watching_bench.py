"""What watching costs: the processor time of a supervisor beside two ranks at twenty steps a second.

    make bench-watching

In turn with the naive way, in which every word of the trainer is a look at every source. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sentinel.client.run_layout import stream_path

pytestmark = pytest.mark.bench
PACE_S = 0.05
SETTLED = 200  # steps before it is measured: the launch is no watching
STEPS = 800
PAIRS = 3
# `sentinel` with every turn a whole look, and every step line and every heartbeat a turn.
NAIVE = """
import re
from sentinel.cli import main
from sentinel.telemetry import wake
follow, take = wake.Wake.follow, wake.Wake.take
def follow_beats(self, attempt):
    if attempt != self._attempt:
        follow(self, attempt)
        self._wanted[wake.attempt_folder(self._run_dir, attempt) / "heartbeats"] = re.compile(r"rank-\\d+\\.json")
def take_all(self):
    take(self)
    return True
wake.Wake.follow, wake.Wake.take, wake.Wake._can_wait = follow_beats, take_all, lambda self: False
main()
"""


def test_a_supervisor_beside_twenty_steps_a_second(tmp_path: Path) -> None:
    ours, naive = [], []
    for pair in range(PAIRS):
        ours.append(cores(tmp_path / f"ours-{pair}", ["-m", "sentinel"]))
        naive.append(cores(tmp_path / f"naive-{pair}", ["-c", NAIVE]))
    for name, seen in (("as shipped", ours), ("every word a look at everything", naive)):
        spread = f"{min(seen):.3f} to {max(seen):.3f}"
        a_step_ms = 1000 * PACE_S * statistics.median(seen)
        words = f"{statistics.median(seen):.3f} of a core ({spread}, {PAIRS} runs), {a_step_ms:.2f} ms a step"
        print(f"watching  {name:32s} {words}")
    print(f"watching  ratio of the medians {statistics.median(ours) / statistics.median(naive):.2f}; the bar is 0.010 of a core")


def cores(run_dir: Path, python: list[str]) -> float:
    """Processor seconds a second of the supervisor alone, from step SETTLED to the last."""
    trainer = [sys.executable, "-m", "tests.bench.steady_words", str(STEPS), str(PACE_S)]
    command = [sys.executable, *python, "run", "--policy", "default", "--run-dir", str(run_dir), "--", *trainer]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as supervisor:
        process = psutil.Process(supervisor.pid)
        wait_for(run_dir, SETTLED)
        before, begun_s = process.cpu_times(), time.monotonic()
        wait_for(run_dir, STEPS - 20)
        after, took_s = process.cpu_times(), time.monotonic() - begun_s
        assert supervisor.wait(120) == 0
    return (after.user + after.system - before.user - before.system) / took_s


def wait_for(run_dir: Path, step: int) -> None:
    path, deadline_s = stream_path(run_dir, 1), time.monotonic() + 300
    while not path.is_file() or path.read_bytes().count(b'"kind":"step"') < step:
        assert time.monotonic() < deadline_s, f"step {step} did not come"
        time.sleep(0.1)
