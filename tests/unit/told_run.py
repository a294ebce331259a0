"""A run as a list of facts: attempt 1 is killed at step 132, attempt 2 meets a spike at step 379 and is rolled back to step 350,
attempt 3 finishes. For tests of whatever shows a run; `until` cuts it short."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sentinel.engine import evolve
from sentinel.journal.lease import Lease
from sentinel.journal.run_file import PolicyReference, RunFile, write_run_file
from sentinel.journal.run_lock import RunLock
from sentinel.journal.session import take_run
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import RankExit, ResumePoint, SampleRange, SettingsInForce
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.model.price import Price
from sentinel.model.readings import StepReading
from sentinel.model.stall import StepTimes
from sentinel.model.state import RunState

START_S = 1_000_000.0
Facts = Sequence[tuple[float, f.Fact]]
COMMAND = ("python3", "-m", "trainer", "--set", "schedule.steps=600")


def told(until: float = 1e9) -> list[tuple[float, f.Fact]]:
    """Seconds after START_S and the fact."""
    resume_100 = ResumePoint(100, "checkpoints/step-00000100", "aa")
    resume_350 = ResumePoint(350, "checkpoints/step-00000350", "bb")
    crash = Incident(1, Kind.CRASH, "critical", "Crash", "restart", 1, None, 132, 132, at(30), at(30.5), "rank 1 was killed")
    spike = Incident(2, Kind.SPIKE, "warning", "Spike", "numeric", 2, 379, 380, 380, at(90), at(90.2), "loss 8.6 over 2.2")
    finding = Finding(Kind.SPIKE, "warning", 2, 379, 380, at(90), "loss 8.6 over 2.2", "loss", 8.6, 2.2)
    hard_batch = Finding(Kind.SPIKE, "info", 1, 70, 70, at(15), "a hard batch", "loss", 3.0, 2.2)
    skip = (SampleRange(5984, 6720),)
    back = Remedy(1, ("rollback", "skip"), "roll back to step 350; skip samples", 350, skip)
    kill = a.KillAttempt("kill/2", 2)
    start_3 = a.StartAttempt("start/3", 3, resume_350, SettingsInForce("ov-3", 2, skip=skip), at(92.5))
    facts: list[tuple[float, f.Fact]] = [
        (0, f.RunCreated("demo", COMMAND, "/", "demo", "d" * 64, False, ("skip",))),
        (0, f.SupervisorTookOver(1, "here", 7, "demo", "d" * 64, False)),
        (0, f.AttemptLaunched(1, None, SettingsInForce(), "first launch")),
        (0, f.ActionDecided(a.StartAttempt("start/1", 1, None, SettingsInForce()))),
        (0.1, f.ActionConfirmed("start/1", "alive")),
        (4, f.ReceiptSeen(1, 0, 2)),
        (4.5, f.FirstStep(1, 1)),
        (15, f.FindingRecorded(hard_batch, None, "severity info: recorded, no incident")),
        (24, f.CheckpointCommitted(1, 100, "checkpoints/step-00000100", 1600, "aa", 0.3)),
        (30.5, f.AttemptEnded(1, "crashed", "rank 1 was killed", 132, at(30), (RankExit(1, None, 9, "reaped"),))),
        (30.5, f.IncidentOpened(crash)),
        (30.5, f.RungTaken(1, Remedy(0, ("resume",), "resume from the checkpoint of step 100", 100), True, 132)),
        (30.6, f.StepsLost(1, 32)),
        (30.6, f.AttemptLaunched(2, resume_100, SettingsInForce("ov-2"), "resume from the checkpoint of step 100")),
        (30.7, f.IncidentMoved(1, IncidentState.PROBATION, "the remedy is launched")),
        (34, f.ReceiptSeen(2, 100, 2)),
        (34.5, f.FirstStep(2, 101)),
        (42, f.Restored(1, 133)),
        (60, f.RungJudged(1, Outcome.WORKED, "60 steps past step 132")),
        (60, f.IncidentMoved(1, IncidentState.RECOVERED, "60 steps past step 132")),
        (80, f.CheckpointCommitted(2, 350, "checkpoints/step-00000350", 5600, "bb", 0.3)),
        (90.2, f.FindingRecorded(finding, 2, "rule Spike")),
        (90.2, f.IncidentOpened(spike)),
        (90.2, f.RungTaken(2, Remedy(0, ("wait",), "patience: wait up to 40 steps"), False, 380)),
        (91, f.RungJudged(2, Outcome.FAILED, "above its band for 4 steps")),
        (91, f.RungTaken(2, back, True, 384)),
        (91, f.AttemptStopping(2, "roll back to step 350")),
        (91, f.PlanAdopted(2, (kill, start_3))),
        (91, f.ActionDecided(kill)),
        (91.4, f.AttemptEnded(2, "stopped", "stop was requested", 384, at(90.9))),
        (91.5, f.ActionConfirmed("kill/2", "exited")),
        (91.5, f.StepsLost(2, 34)),
        (91.5, f.AttemptLaunched(3, resume_350, SettingsInForce("ov-3", 2, skip=skip), "roll back to step 350; skip samples")),
        (91.5, f.ActionDecided(start_3)),
        (92.6, f.ActionConfirmed("start/3", "alive")),
        (92.6, f.IncidentMoved(2, IncidentState.PROBATION, "the remedy is launched")),
        (96, f.ReceiptSeen(3, 350, 2)),
        (96.5, f.FirstStep(3, 351)),
        (104, f.Restored(2, 385)),
        (120, f.RungJudged(2, Outcome.WORKED, "loss within 2%")),
        (120, f.IncidentMoved(2, IncidentState.RECOVERED, "loss within 2%")),
        (150, f.AttemptEnded(3, "finished", "the stream's end line says finished", 600, at(149.9))),
        (150, f.RunEnded("finished", "the trainer finished at step 600")),
    ]
    return [(when, fact) for when, fact in facts if when <= until]


def told_on_gpus(gpus: int = 2, price: Price | None = None, until: float = 1e9) -> list[tuple[float, f.Fact]]:
    """The same run of a trainer that says on how many GPUs it trains."""

    def more(fact: f.Fact) -> f.Fact:
        if isinstance(fact, f.ReceiptSeen):
            return replace(fact, gpus=gpus)
        return replace(fact, price=price) if isinstance(fact, f.SupervisorTookOver) else fact

    return [(when, more(fact)) for when, fact in told(until)]


def at(seconds: float) -> float:
    return START_S + seconds


def entries_of(facts: Sequence[tuple[float, f.Fact]]) -> list[f.Entry]:
    return [f.Entry(number, at(when), 1, fact) for number, (when, fact) in enumerate(facts, 1)]


def state_of(facts: Sequence[tuple[float, f.Fact]]) -> RunState:
    state = RunState()
    for when, fact in facts:
        state = evolve(state, at(when), fact)
    return state


def tell(narrator: Any, until: float = 1e9) -> Any:
    """Hand every fact to a narrator as the daemon does, all of one moment together; what stands for the engine at the end."""
    engine = SimpleNamespace(state=RunState(), detectors=SimpleNamespace(step_times=StepTimes()))
    for _, moment in groupby(entries_of(told(until)), key=lambda entry: entry.at_s):
        entries = list(moment)
        for entry in entries:
            engine.state = evolve(engine.state, entry.at_s, entry.fact)
        narrator.facts(entries, engine)
    return engine


def step(number: int, attempt: int = 1, **metrics: float) -> StepReading:
    return StepReading(attempt, number, at(number / 5), (), metrics or {"loss": 2.5, "grad_norm": 0.5})


def write_run(run_dir: Path, until: float = 1e9, *, released: bool = True, facts: Facts | None = None) -> Path:
    """The run on disk as a supervisor leaves it: run.json, journal, lease. Not released: as one that was killed leaves it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    reference = PolicyReference("demo", "d" * 64, "demo")
    write_run_file(run_dir, RunFile("demo", COMMAND, "/", reference, "local", "2026-01-01T00:00:00+00:00", ("skip",)))
    with take_run(run_dir) as session:
        for when, fact in facts or told(until):
            session.journal.append(at(when), [fact], session.epoch)
    if not released:
        with RunLock.acquire(run_dir) as lock:
            Lease.publish(lock, 1)
    return run_dir


def write_stream(run_dir: Path, attempt: int, steps: Sequence[int], **last: object) -> Path:
    """An attempt's metrics.jsonl: receipt with 600 steps in all, a line per step; `last` goes into the last one."""
    path = run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, object]] = [{"kind": "start", "v": 1, "attempt": attempt, "resume_step": 0, "steps": 600}]
    lines += [{"kind": "step", "step": number, "loss": 2.5} for number in steps]
    lines[-1].update(last)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
