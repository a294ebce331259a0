"""What a simulated trainer says: its stream as the readings its lines would be parsed into, and its ranks' heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sentinel.model.readings import EndReading, Phase, Receipt, StepReading, TrainerNote
from sentinel.sim.world import World

Line = StepReading | Receipt | TrainerNote | EndReading | None  # None: a line that cannot be read


class TrainerOutput:
    """`moved_s` is when it last wrote anything at all, by the world's own clock."""

    def __init__(self, world: World, attempt: int) -> None:
        self.stream: list[Line] = []
        self.beats: dict[int, tuple[int, Phase, float]] = {}
        self.beat_version = 0
        self.moved_s: float | None = None
        self._world = world
        self._attempt = attempt

    def say(self, line: Line) -> None:
        self.moved_s = self._world.now_s
        self.stream.append(line)
        self._world.wake()

    def note(self, event: str, step: int, **data: Any) -> None:
        self.say(TrainerNote(self._attempt, event, step, self._world.now_s, data))

    def end(self, step: int, reason: str) -> None:
        self.say(EndReading(self._attempt, step, reason))

    def beat(self, ranks: Iterable[int], step: int, phase: Phase) -> None:
        """Heartbeats of these ranks; the others' files stay as they are."""
        beat = (step, phase, self._world.now_s)
        for rank in ranks:
            self.beats[rank] = beat
        self.beat_version += 1
        self.moved_s = self._world.now_s
