"""What sentinel.client writes is what telemetry reads: the two ends of PROTOCOL.md, without a trainer between them."""

import math
from pathlib import Path

import pytest

from sentinel.client.session import Session
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import AttemptSpec, ResumePoint, SampleRange, SettingsInForce
from sentinel.model.readings import EndReading, Heartbeat, Receipt, SourceReading, StepReading, TrainerNote
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.run_telemetry import RunTelemetry


def open_session(run_dir: Path, attempt: int, resume: ResumePoint | None) -> Session:
    files = AttemptFiles.of(run_dir, attempt)
    write_spec(files, AttemptSpec(attempt, ("train",), str(run_dir), resume, SettingsInForce(id=f"ov-{attempt}", lr_scale=0.5)))
    session = Session.from_environment(rank=0, environ=files.environment)
    assert session is not None
    return session


def test_everything_a_session_writes_comes_back_as_readings(tmp_path: Path, launcher) -> None:
    first = open_session(tmp_path, 1, None)
    first.start(resume_step=0, resume_digest=None, world_size=2, params=10, tokens_per_step=64, effective={"lr": 1e-3})
    for step in range(1, 6):
        first.step(step, loss=float(step), samples=[[step * 4, step * 4 + 4]])
    second = open_session(tmp_path, 2, ResumePoint(4, "checkpoints/step-00000004"))
    second.heartbeat(5, "backward")
    second.start(resume_step=4, resume_digest="ab", world_size=2, params=10, tokens_per_step=64, effective={"lr": 1e-3})
    second.step(5, loss=math.nan, grad_norm=math.inf, samples=[[20, 24], [30, 34]])
    second.event("override_applied", id="ov-2")
    second.end(5, "failed")

    telemetry = RunTelemetry(tmp_path, launcher)
    telemetry.follow(2)
    readings = [reading for reading in telemetry.poll(1.0) if not isinstance(reading, SourceReading)]
    telemetry.close()
    _, receipt, step, note, end, beat = readings
    assert isinstance(receipt, Receipt)
    assert (receipt.resume_step, receipt.resume_digest, receipt.world_size) == (4, "ab", 2)
    assert receipt.overrides["lr_scale"] == 0.5
    assert [(past.attempt, past.step, past.metrics["loss"]) for past in receipt.history] == [
        (1, n, float(n)) for n in range(1, 5)
    ]
    assert isinstance(step, StepReading)
    assert math.isnan(step.metrics["loss"])
    assert step.metrics["grad_norm"] == math.inf
    assert step.samples == (SampleRange(20, 24), SampleRange(30, 34))
    assert isinstance(note, TrainerNote)
    assert (note.event, note.step, note.data["id"]) == ("override_applied", 5, "ov-2")
    assert end == EndReading(2, 5, "failed")
    assert isinstance(beat, Heartbeat)
    assert (beat.rank, beat.step, beat.phase) == (0, 5, "backward")
    assert beat.time_s == pytest.approx(step.time_s, abs=60)
