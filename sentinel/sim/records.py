"""What a simulated attempt recorded, with the attempts it came from below it: what `telemetry.records` reads from files."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.model.readings import StepReading
from sentinel.sim.trainer import SimTrainer


def read_record(trainer_of: Callable[[int], SimTrainer | None], attempt: int) -> dict[int, StepReading]:
    rows: dict[int, StepReading] = {}
    trainer, bound = trainer_of(attempt), None
    while trainer is not None:
        own = (line for line in trainer.voice.stream if isinstance(line, StepReading))
        rows = {line.step: line for line in own if bound is None or line.step <= bound} | rows
        if trainer.resumed is None:
            break
        bound, trainer = trainer.resumed.step, trainer_of(trainer.resumed.attempt)
    return rows
