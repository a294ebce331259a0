"""How long a save blocks training, and what that is of the time at the interval that `sentinel status` would advise.

    make bench-saving          PRESET=tiny SAVES=10 for others

The bundled trainer, one rank on the CPU, alone: what blocks it is its own `blocked_s`, the seconds in which the loop stood still.
Daly's interval follows from it and from how often the run is interrupted. Prints; asserts nothing about time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from sentinel.plan.save_interval import daly_s
from tests.bench.spread import in_words

SAVES = int(os.environ.get("SAVES", "10"))
PRESET = os.environ.get("PRESET", "micro")
EVERY = 5
HOURS = (1.0, 8.0, 24.0)  # of training between two interruptions


@pytest.mark.bench
def test_what_saving_blocks_at_the_advised_interval(tmp_path: Path) -> None:
    sizes = [f"schedule.steps={SAVES * EVERY}", f"checkpoint.every={EVERY}", "data.batch_size=4", "data.seq_len=64"]
    words = ["-m", "trainer", "--preset", PRESET, "--out-dir", str(tmp_path / "run"), "--set", *sizes]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], env=environ, check=True, capture_output=True)
    (stream,) = (tmp_path / "run").rglob("metrics.jsonl")
    lines = [json.loads(text) for text in stream.read_text().splitlines()]
    saves = [line for line in lines if line.get("event") == "checkpoint_committed"]
    blocked_s, took_s = ([float(line[name]) for line in saves] for name in ("blocked_s", "seconds"))
    steps = [line for line in lines if line["kind"] == "step"]
    step_s = statistics.median(later["time_s"] - sooner["time_s"] for sooner, later in pairwise(steps))
    size = sum(path.stat().st_size for path in (tmp_path / "run").glob(f"checkpoints/step-{SAVES * EVERY:08d}/*"))
    blocked, took = (in_words([1000 * seconds for seconds in seen], "ms") for seen in (blocked_s, took_s))
    print(f"saving    {PRESET}, {size / 1e6:.1f} MB, a step of {1000 * step_s:.0f} ms: blocks {blocked}, committed after {took}")
    save_s = statistics.median(blocked_s)
    for hours in HOURS:
        interval_s = max(daly_s(save_s, 3600 * hours), step_s)
        share = save_s / (interval_s + save_s)
        print(f"saving    interrupted every {hours:g} h: every {interval_s:.0f} s, of which saving blocks {share:.3%} (bar 1 %)")
    print("saving    the bar is kept where 5,000 times what a save blocks lie between two interruptions: sqrt(s / 2M) is 1 %")
