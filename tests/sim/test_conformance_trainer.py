"""The simulated trainer against the real one: the same story of three attempts, line by line; and the same data order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sentinel.model.attempts import AttemptSpec, ResumePoint, SampleRange, SettingsInForce
from sentinel.sim.data_order import take, union
from sentinel.sim.fault_injector import FaultInjector
from sentinel.sim.faults import parse_fault
from sentinel.sim.launcher import SimLauncher
from sentinel.sim.processes import Job
from sentinel.sim.shape import Shape
from sentinel.sim.trainer import SimTrainer
from sentinel.sim.world import World
from tests.integration.test_trainer_launch import launch
from tests.sim.test_conformance_telemetry import as_json
from trainer.data_order import Position, ranges_of

__all__ = ["launch"]
FAULTS = ("nan_grad@step=5:length=2", "kill@step=7:rank=1", "crash@step=12:rank=0", "exit@step=13:code=4,attempt=3")
STEPS, BATCH, EVERY = 14, 4, 4
CHANGED = {"id": "ov-2", "lr_scale": 0.5, "clip_norm": 0.3, "skip": [[24, 30]], "until": {"lr_scale": 7}}
Story = list[tuple[Any, ...]]


def told(lines: Sequence[Mapping[str, Any]]) -> Story:
    """What a reader of the stream would rely on; values that a simulation cannot know (losses, digests) left out."""
    story: Story = []
    for line in lines:
        match line["kind"]:
            case "start":
                live = line["effective"]
                settings = tuple(live[key] for key in ("lr_scale", "clip_norm", "weight_decay", "betas", "skip", "until"))
                asked = {key: value for key, value in line["overrides"].items() if value and key not in ("id", "attempt")}
                story.append(("start", line["resume_step"], line["world_size"], line["cursor"], asked, settings))
            case "step":
                story.append(("step", line["step"], line["samples"], line["skipped"], "val_loss" in line))
            case "event":
                story.append(("event", line["event"], line["step"], sorted(line.get("keys", []))))
            case "end":
                story.append(("end", line["step"], line["reason"]))
    return story


class SimRun:
    """The simulated counterpart of `launch`."""

    def __init__(self) -> None:
        self.world = World(1)
        self.trainers: dict[int, SimTrainer] = {}
        self._injector = FaultInjector([parse_fault(text) for text in FAULTS], self.world.faults_done)
        self._shape = Shape(steps=STEPS, batch=BATCH, ranks=2, checkpoint_every=EVERY)

    def launch(self, attempt: int, resume: int | None, overrides: SettingsInForce) -> tuple[Story, list[int | None]]:
        point = None if resume is None else ResumePoint(resume, f"checkpoints/step-{resume:08d}")
        spec = AttemptSpec(attempt, ("train",), "/", point, overrides)
        SimLauncher(self.world, self._make).ensure_started(spec)
        job = self.world.jobs[attempt]
        for _ in range(1000):
            if job.report is not None:
                break
            self.world.advance(1.0, wakes=False)
        records = [job.records[rank][0] if rank in job.records else None for rank in (0, 1)]
        return told([as_json(line) for line in self.trainers[attempt].output.stream]), records

    def _make(self, spec: AttemptSpec) -> Job:
        self.trainers[spec.attempt] = SimTrainer(self.world, self._shape, self._injector, spec)
        return Job(self.world, spec.attempt, self.trainers[spec.attempt], 2)


@pytest.mark.timeout(300)
def test_three_attempts_tell_the_same_story(launch: Any) -> None:
    # The simulated trainer saves within a step; a real one may be told of its save a step later, and only then tells it.
    sizes = f"schedule.steps={STEPS}", "checkpoint.asynchronous=false"
    words = ["--set", *sizes, *(word for fault in FAULTS for word in ("--fault", fault))]
    simulated = SimRun()
    changed = SettingsInForce("ov-2", lr_scale=0.5, clip_norm=0.3, skip=(SampleRange(24, 30),), until=(("lr_scale", 7),))
    attempts: list[tuple[int | None, SettingsInForce, dict[str, Any]]] = [
        (None, SettingsInForce(), {}),
        (4, changed, CHANGED),
        (8, SettingsInForce(skip=changed.skip), {"skip": CHANGED["skip"]}),
    ]
    for number, (resume, overrides, asked) in enumerate(attempts, 1):
        real = launch(number, *words, ranks=2, resume=resume, overrides=asked)
        real.wait()
        lines = [line for kind in ("start", "step", "event", "end") for line in real.lines(kind)]
        lines.sort(key=lambda line: line["time_s"])
        story, records = simulated.launch(number, resume, overrides)
        assert story == told(lines), f"attempt {number}"
        assert records == [None if real.record(rank) is None else real.record(rank)["code"] for rank in (0, 1)]


def test_the_data_order_is_the_trainers_own() -> None:
    dice = random.Random(5)
    for _ in range(300):
        starts = sorted(dice.sample(range(400), dice.randrange(0, 12)))
        skip = union((start, start + dice.randrange(1, 50)) for start in starts)
        position, _ = Position.first(1).skipping([list(span) for span in skip])
        cursor = 0
        for _ in range(12):
            batch = dice.choice((1, 4, 16))
            spans, cursor = take(cursor, batch, skip)
            indices, position = position.take(batch)
            assert [list(span) for span in spans] == ranges_of(indices)
            assert cursor == position.cursor
