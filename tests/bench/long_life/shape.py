"""How long the run is, and what its trainer wrote of each step: pure arithmetic, so that streams and engine are told the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

ATTEMPTS = 200
STEPS = 1_000_000  # of an attempt
WHOLE = 5  # so many of the newest attempts have a line for every step
STRIDE = 200  # of the older ones, and of what the engine is told: a line for so many steps
SAVE_EVERY = 50_000
STEP_S = 0.025
INIT_S = 60.0
PAUSE_S = 860.0  # between two attempts: checkpoints are read, a person looks, a queue waits
ACTS_S = 20.0  # what the actions of one relaunch take at most
RANKS = 8
BATCH = 16
INCIDENTS = 500


@dataclass(frozen=True)
class Shape:
    """The tests make a small one."""

    attempts: int = ATTEMPTS
    steps: int = STEPS
    whole: int = WHOLE
    stride: int = STRIDE
    save_every: int = SAVE_EVERY
    incidents: int = INCIDENTS

    @property
    def seconds(self) -> float:
        """How long the run lasts, and a little more."""
        return self.attempts * (INIT_S + self.steps * STEP_S + PAUSE_S + ACTS_S)

    @property
    def spike_steps(self) -> int:
        return 3 * self.stride

    def spikes(self, attempt: int) -> tuple[int, ...]:
        """Offsets at which the loss of an attempt rises for a while and heals: an incident each. All attempts but the newest end
        in an incident of their own."""
        healed = self.incidents - (self.attempts - 1)
        if attempt == self.attempts:
            return ()
        count = healed * attempt // (self.attempts - 1) - healed * (attempt - 1) // (self.attempts - 1)
        return tuple(self.steps * number // (count + 1) // self.stride * self.stride for number in range(1, count + 1))


@dataclass(frozen=True)
class Told:
    """One attempt of the trainer's: it goes on from `resume_step`, its first line is of `began_s`."""

    shape: Shape
    attempt: int
    resume_step: int
    began_s: float

    @property
    def last_step(self) -> int:
        return self.resume_step + self.shape.steps

    @property
    def ends_in_nan(self) -> bool:
        return self.attempt % 2 == 0 and self.attempt < self.shape.attempts

    def sparse(self) -> range:
        return range(self.resume_step + self.shape.stride, self.last_step + 1, self.shape.stride)

    def steps(self) -> range:
        """Of which its stream has a line."""
        if self.attempt > self.shape.attempts - self.shape.whole:
            return range(self.resume_step + 1, self.last_step + 1)
        return self.sparse()

    def saves(self) -> Iterator[int]:
        every = self.shape.save_every
        return iter(range(self.resume_step // every * every + every, self.last_step, every))

    def time_s(self, step: int) -> float:
        return self.began_s + (step - self.resume_step) * STEP_S

    def metrics(self, step: int) -> dict[str, float]:
        """Noise from the step's number, over a level that sinks for as long as the run lasts."""
        noise = ((step * 2654435761) % 1000 - 500) / 5000
        level = 2.0 + 2.0 * math.exp(-step / (self.shape.attempts * self.shape.steps / 4))
        offset = step - self.resume_step
        if any(first <= offset < first + self.shape.spike_steps for first in self.shape.spikes(self.attempt)):
            level *= 2.0
        loss = math.nan if self.ends_in_nan and step == self.last_step else round(level + noise / 4, 5)
        return {"loss": loss, "grad_norm": round(1.0 + noise, 5), "lr": 3e-4, "tokens_per_s": 655360.0, "step_time_s": STEP_S}

    def samples(self, step: int) -> tuple[int, int]:
        return (step - 1) * BATCH, step * BATCH
