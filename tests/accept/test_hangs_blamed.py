"""Twenty drawn hangs of real ranks, half of them beside four busy processes: who is blamed, and how soon.   make accept

One supervised run of two ranks. Each seed draws a rank, the moment within a step at which it is stopped from outside (SIGSTOP),
and for how long: some are continued before the limit of a hang and must not be believed, the others stay stopped.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sentinel.cli.bundled_trainer import launch_words, precision_words, size_words
from tests.integration.supervised import Supervised, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEEDS = range(101, 121)
FLOOR_S, BUSY, NEW_GROUND_S = 3.0, 4, 60.0
POLICY = f"""\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {{name: hangs}}
extends: demo
spec:
  detectors:
    hang: {{floor: {FLOOR_S:g}s}}
  probation: {{steps: 8}}
  budget: {{interventions: 1000 per 1h, restarts: 1000 per 1h, backoff: 1s..1s}}
"""


@contextmanager
def busy(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def beat_of(run: Supervised, rank: int) -> dict[str, Any] | None:
    path = run.run_dir / "attempts" / f"{run.attempts()[-1]:04d}" / "heartbeats" / f"rank-{rank:05d}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def settled(run: Supervised, step: int) -> bool:
    """New ground, and nothing open."""
    attempts = run.attempts()
    if not attempts or run.last_step(attempts[-1]) < step:
        return False
    return run.status()["open_incident"] is None


def test_drawn_hangs_are_believed_in_time_and_blame_the_rank_that_was_stopped(tmp_path: Path) -> None:
    policy = tmp_path / "hangs.yaml"
    policy.write_text(POLICY)
    words = [*launch_words(2), *size_words(100_000, 20), *precision_words("fp32"), "--preset", "micro"]
    run = Supervised(tmp_path / "run", words, policy=str(policy)).start()
    rows: list[tuple[object, ...]] = []
    try:
        ground = 30
        for seed in SEEDS:
            with busy(BUSY if seed % 2 else 0):
                wait_for(f"step {ground} of seed {seed}", lambda ground=ground: settled(run, ground), 240.0)
                rows.append(hang_once(run, seed))
            ground = run.last_step(run.attempts()[-1]) + 12
        wait_for(f"step {ground}, after the last of them", lambda: settled(run, ground), 240.0)
        recovered = [incident["time_to_recover_s"] for incident in run.incidents()]
        assert {incident["kind"] for incident in run.incidents()} == {"hang"}, [one["reason"] for one in run.incidents()]
    finally:
        run.kill()
        for pid in run.living():
            os.kill(pid, signal.SIGKILL)
    print("\nseed  busy  rank  stopped in    for s   blamed  believed after s")
    for row in rows:
        print("{:>4}  {:>4}  {:>4}  {:<12}  {:>5}  {:>6}  {}".format(*row))
    believed = [row for row in rows if row[4] == "good"]
    assert [row[2] for row in believed] == [row[5] for row in believed]
    assert all(row[5] == "none" for row in rows if row not in believed), "a rank that went on was called hanging"
    seconds = [float(str(row[6])) for row in believed]
    middle, most = statistics.median(seconds), max(seconds)
    print(f"{len(believed)} hangs believed, all blamed right; after {middle:.1f} s, at most {most:.1f} s")
    assert most < FLOOR_S + 1.0
    print(f"new ground after {statistics.median(recovered):.0f} s, at most {max(recovered):.0f} s")
    assert max(recovered) < NEW_GROUND_S


def hang_once(run: Supervised, seed: int) -> tuple[object, ...]:
    """Stop a drawn rank; what came of it as a row."""
    draw = random.Random(seed)
    rank, moment_s, lasts = draw.randrange(2), draw.uniform(0.0, 0.3), draw.random() < 0.75
    length_s = draw.uniform(0.1, 0.6) * FLOOR_S
    before = len(run.incidents())
    time.sleep(moment_s)
    beat = wait_for("a heartbeat", lambda: beat_of(run, rank))
    os.kill(beat["pid"], signal.SIGSTOP)
    stood = (beat_of(run, rank) or beat)["phase"]
    load = BUSY if seed % 2 else 0
    if not lasts:
        time.sleep(length_s)
        os.kill(beat["pid"], signal.SIGCONT)
        step = run.last_step(run.attempts()[-1])
        wait_for("steps after it", lambda: run.last_step(run.attempts()[-1]) > step + 3)
        found = run.incidents()[before:]
        return seed, load, rank, stood, f"{length_s:.1f}", found[0]["blamed_rank"] if found else "none", "-"
    wait_for("an incident", lambda: len(run.incidents()) > before)
    incident = run.incidents()[before]
    assert incident["kind"] == "hang", incident["reason"]
    print(f"seed {seed}: {incident['reason']}", flush=True)
    return seed, load, rank, stood, "good", incident["blamed_rank"], round(incident["time_to_detect_s"], 2)
