"""The simulated telemetry and the real one, side by side over whole simulated runs: every look gives the same readings.

What the simulated world says is written to real files as `sentinel.client` would write it, and the real telemetry reads them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.strict_json import dumps
from sentinel.launcher.contract import Launcher
from sentinel.model.readings import (
    CheckpointReading,
    EndReading,
    Reading,
    Receipt,
    SilentRank,
    SourceReading,
    StepReading,
    TrainerNote,
)
from sentinel.sim import run as sim_run
from sentinel.sim.store import SimCheckpoint
from sentinel.sim.telemetry import SimTelemetry, TrainerOf
from sentinel.sim.trainer_output import Line
from sentinel.sim.world import World
from sentinel.telemetry.run_telemetry import RunTelemetry
from tests.sim.kit import simulate


def as_json(line: Line) -> Mapping[str, Any]:
    """The line of metrics.jsonl that this reading was."""
    match line:
        case Receipt():
            head = {"kind": "start", "v": 1, "attempt": line.attempt, "time_s": line.time_s, "resume_step": line.resume_step}
            head |= {"resume_digest": line.resume_digest, "world_size": line.world_size, "cursor": line.cursor}
            return head | {"overrides": dict(line.overrides), "effective": dict(line.effective)}
        case StepReading():
            samples = [[part.start, part.end] for part in line.samples]
            return {"kind": "step", "step": line.step, "time_s": line.time_s, "samples": samples, **line.metrics}
        case TrainerNote():
            return {"kind": "event", "event": line.event, "step": line.step, "time_s": line.time_s, **line.data}
        case EndReading():
            return {"kind": "end", "step": line.step, "time_s": 0.0, "reason": line.reason}
        case None:
            return {}


class Mirror:
    """Keeps real files equal to the simulated world."""

    def __init__(self, world: World, trainer_of: TrainerOf, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._world = world
        self._trainer_of = trainer_of
        self._written: dict[int, int] = {}
        self._lying: dict[int, SimCheckpoint] = {}

    def catch_up(self) -> None:
        for attempt, job in self._world.jobs.items():
            folder = self.run_dir / "attempts" / f"{attempt:04d}"
            (folder / "heartbeats").mkdir(parents=True, exist_ok=True)
            trainer = self._trainer_of(attempt)
            if trainer is None:
                continue
            first = self._written.get(attempt, 0)
            lines = trainer.output.stream[first:]
            self._written[attempt] = first + len(lines)
            if lines:
                with (folder / "metrics.jsonl").open("a") as file:
                    file.writelines("{torn\n" if line is None else dumps(as_json(line)) + "\n" for line in lines)
            for rank, (step, phase, time_s) in trainer.output.beats.items():
                beat = dumps({"step": step, "phase": phase, "time_s": time_s, "pid": 1, "host": "sim"})
                place = folder / "heartbeats" / f"rank-{rank:05d}.json"
                if not place.exists() or place.read_text() != beat:
                    place.write_text(beat)
            if job.report is not None:
                (folder / "exit.json").touch()
        self._keep_checkpoints()

    def _keep_checkpoints(self) -> None:
        committed = self._world.store.committed
        for step, lying in list(self._lying.items()):
            if committed.get(step) is not lying:
                shutil.rmtree(self.run_dir / lying.path)
                del self._lying[step]
        for step, found in committed.items():
            if step not in self._lying:
                self._lying[step] = found
                (self.run_dir / found.path).mkdir(parents=True)
                manifest = {"v": 1, "step": step, "attempt": found.attempt, "cursor": found.cursor, "files": {}}
                (self.run_dir / found.path / "manifest.json").write_text(dumps(manifest))


def comparable(reading: Reading) -> str:
    """Without what must differ: a manifest's digest, and the words about a source."""
    if isinstance(reading, CheckpointReading):
        return f"checkpoint {reading.step} {reading.path} {reading.attempt} {reading.samples_end}"
    if isinstance(reading, SourceReading):
        return f"source {reading.source} {reading.ok}"
    return repr(reading)


class Both:
    """Polls the two and holds them to each other."""

    def __init__(self, simulated: SimTelemetry, real: RunTelemetry, mirror: Mirror) -> None:
        self._simulated = simulated
        self._real = real
        self._mirror = mirror
        self.compared = 0

    def follow(self, attempt: int) -> None:
        self._simulated.follow(attempt)
        self._real.follow(attempt)

    def poll(self, now_s: float) -> Sequence[Reading]:
        self._mirror.catch_up()
        said, read = self._simulated.poll(now_s), self._real.poll(now_s)
        files = [
            reading for reading in said if not isinstance(reading, SilentRank)
        ]  # that is read from processes, and none is here
        assert [comparable(reading) for reading in files] == [comparable(reading) for reading in read]
        self.compared += len(said)
        return said

    @property
    def has_more(self) -> bool:
        return self._simulated.has_more


@pytest.mark.parametrize(
    "faults",
    [
        ("kill@step=50:rank=1", "supervisor_kill@time=20:for=5"),
        ("bad_data@sample=960-1200", "damaged_line@step=40:length=2", "supervisor_kill@effect=6:for=9,side=after"),
        ("nan_state@step=60", "keeper_kill@step=85:attempt=2"),
        ("hang@step=70:rank=0", "bit_rot@step=60"),
        ("unstable@step=60", "stop@time=60"),
        ("exit@step=0:code=3",),
    ],
)
def test_every_look_gives_the_same_readings(faults: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Both] = []

    def both(world: World, launcher: Launcher, trainer_of: TrainerOf, lines_per_poll: int, reads_behind: bool) -> Both:
        mirror = made[0]._mirror if made else Mirror(world, trainer_of, tmp_path)
        simulated = SimTelemetry(world, launcher, trainer_of, lines_per_poll, reads_behind)
        made.append(Both(simulated, RunTelemetry(tmp_path, launcher), mirror))
        return made[-1]

    monkeypatch.setattr(sim_run, "SimTelemetry", both)
    result = simulate(*faults, policy="live" if "unstable" in faults[0] else "demo")
    assert result.ok, result.broken
    assert sum(pair.compared for pair in made) > 8
