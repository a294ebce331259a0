"""What a Prometheus scrape of a long run costs: 500 attempts, each with an incident, and the numbers of 100 layers.

    make bench-scrape          REPEATS=10 by default

The run is made of facts and not trained. Processor time of the answer alone, without HTTP. Prints; asserts nothing about time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.engine import evolve
from sentinel.metrics.exposition import exposition
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import RankExit, ResumePoint, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, Remedy
from sentinel.model.state import RunState
from sentinel.report.following import RunSnapshot
from sentinel.report.tally import Tally
from sentinel.run_files.detector_standings import DetectorStandings
from tests.bench.spread import in_words
from tests.unit.told_run import at

REPEATS = int(os.environ.get("REPEATS", "10"))
ATTEMPTS, LAYERS, STEPS = 500, 100, 1000
EACH_S = 3600.0


def life() -> Iterator[tuple[float, f.Fact]]:
    """Seconds since it began, and the fact: attempts of an hour, each killed a while behind its checkpoint."""
    yield 0, f.RunCreated("long", ("python3", "train.py"), "/", "demo", "d" * 64, False, ())
    yield 0, f.SupervisorTookOver(1, "here", 7, "demo", "d" * 64, False)
    for number in range(1, ATTEMPTS + 1):
        began_s, step = (number - 1) * EACH_S, number * STEPS
        resume = ResumePoint(step - STEPS, f"checkpoints/step-{step - STEPS:08d}", f"d{number}") if number > 1 else None
        yield began_s, f.AttemptLaunched(number, resume, SettingsInForce(), "as the policy says")
        yield began_s, f.ActionDecided(a.StartAttempt(f"start/{number}", number, resume, SettingsInForce()))
        yield began_s + 1, f.ActionConfirmed(f"start/{number}", "alive")
        yield began_s + 4, f.ReceiptSeen(number, step - STEPS, 2)
        yield began_s + 5, f.FirstStep(number, step - STEPS + 1)
        path = f"checkpoints/step-{step:08d}"
        yield began_s + 2000, f.CheckpointCommitted(number, step, path, 16 * step, f"d{number + 1}", 0.3)
        seen_s = at(began_s + 3000)
        why = "rank 1 was killed by SIGKILL"
        yield began_s + 3000, f.AttemptEnded(number, "crashed", why, step + 30, seen_s, (RankExit(1, None, 9, "reaped"),))
        crash = Incident(number, Kind.CRASH, "critical", "Crash", "restart", number, None, step, step, seen_s, seen_s, why)
        yield began_s + 3000, f.IncidentOpened(crash)
        yield began_s + 3000, f.RungTaken(number, Remedy(0, ("resume",), "resume from the newest", step), True, step + 30)
        yield began_s + 3000, f.StepsLost(number, 30)
        yield began_s + 3001, f.IncidentMoved(number, IncidentState.RECOVERED, "60 steps past it")


@pytest.mark.bench
def test_a_scrape_of_five_hundred_attempts() -> None:
    tally, state, told = Tally(), RunState(), 0
    for seq, (second, fact) in enumerate(life(), start=1):
        tally.take(state, f.Entry(seq, at(second), 1, fact))
        state, told = evolve(state, at(second), fact), told + 1
    layers = {f"{name}/block-{layer:02d}": 0.5 for name in ("activation_norm", "grad_norm") for layer in range(LAYERS)}
    snapshot = RunSnapshot(
        run_dir=Path("/runs/long"), state=state, tally=tally, now_s=at(ATTEMPTS * EACH_S), supervisor="alive", heartbeat_s=None,
        senses=DetectorStandings(), attempt_alive=True, last=layers | {"loss": 2.0}, step=ATTEMPTS * STEPS, total_steps=None,
    )  # fmt: skip
    exposition([snapshot])
    took = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        answer = exposition([snapshot])
        took.append(1000 * (time.process_time() - began_s))
    run = f"{told} facts, {len(state.incidents)} incidents kept, an answer of {len(answer)} bytes"
    print(f"scrape    {run}: {in_words(took, 'ms')} of a processor")
