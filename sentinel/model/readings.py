"""What telemetry can say about the world. A reading is an observation, never a judgement.

Steps count optimizer steps from 1. `time_s` is the trainer's clock (display and durations only); the supervisor's own
time of observation is an argument of whoever consumes the reading. Metric values may be NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sentinel.model.attempts import AttemptView, SampleRange

Phase = Literal["init", "compile", "data", "forward", "backward", "optimizer", "eval", "checkpoint", "idle"]


@dataclass(frozen=True, slots=True)
class StepReading:
    """One optimizer step as the trainer reported it; `samples` are the ranges of the data order it consumed."""

    attempt: int
    step: int
    time_s: float
    samples: tuple[SampleRange, ...]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The trainer's proof of what is in force, read back from the live optimizer after the checkpoint was loaded.

    `history` is the end of the surviving lineage before `resume_step` (oldest first, bounded), which telemetry reads
    from the parents' streams so that a relaunched run is judged against its own past and not against nothing. `cursor` is the
    next sample index, None where the trainer does not say.
    """

    attempt: int
    time_s: float
    resume_step: int
    resume_digest: str | None
    world_size: int
    overrides: Mapping[str, Any]
    effective: Mapping[str, Any]
    history: tuple[StepReading, ...] = ()
    cursor: int | None = None


@dataclass(frozen=True, slots=True)
class TrainerNote:
    """An event line of the stream: checkpoint_committed, override_applied, override_refused, resumed_older, …"""

    attempt: int
    event: str
    step: int
    time_s: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndReading:
    """The stream's last line: finished | stopped_on_request | failed."""

    attempt: int
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A rank's heartbeat file changed; only changes are reported, so the reading's arrival is the beat."""

    attempt: int
    rank: int
    step: int
    phase: Phase
    time_s: float


@dataclass(frozen=True, slots=True)
class CheckpointReading:
    """A checkpoint directory with a manifest. `samples_end` is its data cursor; `digest` is the manifest's sha256."""

    step: int
    path: str
    attempt: int
    samples_end: int
    digest: str


@dataclass(frozen=True, slots=True)
class LauncherReading:
    """What the launcher sees of the current attempt."""

    view: AttemptView


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines a rank printed before its attempt exited; rank None: the launcher's. Comes before the exit, bounded."""

    attempt: int
    rank: int | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceReading:
    """A source went blind or sees again. Blind means that verdicts needing it are unknown, never healthy."""

    source: str
    ok: bool
    reason: str


Reading = (
    StepReading
    | Receipt
    | TrainerNote
    | EndReading
    | Heartbeat
    | CheckpointReading
    | LauncherReading
    | LogTail
    | SourceReading
)
