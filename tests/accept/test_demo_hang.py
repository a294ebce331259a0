"""The demonstration's hang on a loaded machine, ten times: believed in time, the right rank blamed.   make accept

Rank, step and phase are drawn from printed seeds. Four processes keep both cores busy from the first step until the run is on new
ground: what is judged lies between. Beside them a step takes three times as long, so neither the first start nor the steps after
it are spent on them.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.accept.test_hangs_blamed import BUSY, busy
from tests.integration.supervised import Supervised, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SEEDS = range(401, 411)
STEPS = 200
FLOOR_S, STEP_TIMES, LATE_S = 6.0, 3.0, 1.0  # policies/demo.yaml's floor, and what may come on top
NEW_GROUND_S = 60.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_demonstrations_hang_beside_four_busy_processes(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    rank, step = draw.randrange(2), draw.randint(60, 120)
    words = [sys.executable, "-m", "sentinel", "demo", "--run-dir", str(tmp_path / "run"), "--steps", str(STEPS)]
    words += ["--fault", f"hang@step={step}:rank={rank}", "--listen", "off"]
    run, log = Supervised(tmp_path / "run", []), tmp_path / "demo.log"
    with log.open("w") as told, subprocess.Popen(words, stdout=told, stderr=told) as demo:
        wait_for("the first step", lambda: run.last_step(1) > 0 or demo.poll() is not None)
        with busy(BUSY):
            wait_for("new ground", lambda: new_ground(run, step) or demo.poll() is not None, 400)
        code = demo.wait(400)
    assert code == 0, log.read_text()
    incidents = run.incidents()
    assert len(incidents) == 1, [(one["kind"], one["reason"]) for one in incidents]
    (hang,) = incidents
    times_s = [line["time_s"] for line in run.lines(1) if line["kind"] == "step"]
    usual_s = statistics.median(later - earlier for earlier, later in pairwise(times_s))
    print(f"\nseed {seed}: rank {rank} stopped at step {step}, a step takes {usual_s:.2f} s; blamed {hang['blamed_rank']}")
    print(f"believed after {hang['time_to_detect_s']:.1f} s, new ground after {hang['time_to_recover_s']:.0f} s")
    assert (hang["kind"], hang["state"], hang["blamed_rank"]) == ("hang", "recovered", rank)
    assert hang["time_to_detect_s"] <= max(STEP_TIMES * usual_s, FLOOR_S) + LATE_S
    assert hang["time_to_recover_s"] <= NEW_GROUND_S


def new_ground(run: Supervised, hang_step: int) -> bool:
    """A later attempt has trained past the step at which the rank was stopped."""
    return run.attempts()[-1] > 1 and run.last_step(run.attempts()[-1]) > hang_step
