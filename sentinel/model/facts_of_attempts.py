"""Facts about attempts and their checkpoints. How facts work is said in `facts`."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.attempts import Evidence, Overrides, RankExit, ResumePoint
from sentinel.model.environment import Environment
from sentinel.model.recorded import recorded_as


@recorded_as("AttemptLaunched")
@dataclass(frozen=True, slots=True)
class AttemptLaunched:
    """The attempt exists from here on (its start was decided; the launcher makes it so)."""

    attempt: int
    resume: ResumePoint | None
    overrides: Overrides
    why: str


@recorded_as("EnvironmentRead")
@dataclass(frozen=True, slots=True)
class EnvironmentRead:
    """What the attempt was launched to run, as its spec.json says. `environment` None: the same as the last one on record.
    `changes`: against the newest that was known before, in words. `unknown`: what could not be read, and why."""

    attempt: int
    environment: Environment | None
    changes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@recorded_as("ReceiptSeen")
@dataclass(frozen=True, slots=True)
class ReceiptSeen:
    """The trainer said what is in force. `resumed_step` is where it really resumed; `deterministic`: it claims to compute the
    same numbers to the bit from the same checkpoint and data."""

    attempt: int
    resumed_step: int
    world_size: int
    deterministic: bool = False


@recorded_as("FirstStep")
@dataclass(frozen=True, slots=True)
class FirstStep:
    attempt: int
    step: int


@recorded_as("CheckpointCommitted")
@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A checkpoint with a manifest. `samples_end` is its data cursor; `seconds` what its save cost the trainer."""

    attempt: int
    step: int
    path: str
    samples_end: int
    digest: str | None = None
    seconds: float = 0.0


@recorded_as("CheckpointCondemned")
@dataclass(frozen=True, slots=True)
class CheckpointCondemned:
    """Not to be resumed from: its bytes or its numbers are wrong (`damaged`), it lies at or after an onset, or what resumed from
    it failed again and again."""

    step: int
    reason: str
    damaged: bool = False
    evidence: Evidence = ""


@recorded_as("CheckpointsQuarantined")
@dataclass(frozen=True, slots=True)
class CheckpointsQuarantined:
    """Every checkpoint above the step was moved aside; the run's newest is now at or below it."""

    above_step: int
    reason: str


@recorded_as("AttemptStopping")
@dataclass(frozen=True, slots=True)
class AttemptStopping:
    """The end of this attempt is wanted (a plan, a person); its exit is no crash."""

    attempt: int
    reason: str


@recorded_as("AttemptEnded")
@dataclass(frozen=True, slots=True)
class AttemptEnded:
    attempt: int
    outcome: str  # finished | stopped | crashed | killed | lost
    reason: str
    last_step: int
    last_step_s: float
    ranks: tuple[RankExit, ...] = ()
