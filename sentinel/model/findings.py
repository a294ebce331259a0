"""What a detector says: a verdict with its reason, and the finding that an unhealthy one becomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Severity = Literal["info", "warning", "critical"]


class Verdict(StrEnum):
    """Three-valued on purpose: too little data, or a dead source, is unknown and never healthy."""

    HEALTHY = "healthy"
    BREACHED = "breached"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """What can be wrong with a run: the failure words of ARCHITECTURE.md."""

    NON_FINITE = "non_finite"
    SPIKE = "spike"
    DIVERGENCE = "divergence"
    DRIFT = "drift"
    LOSS_SCALE_COLLAPSE = "loss_scale_collapse"
    PLATEAU = "plateau"
    TOO_GOOD = "too_good"
    BEHIND_REFERENCE = "behind_reference"
    GENERALISATION = "generalisation"
    PRECURSOR = "precursor"
    HANG = "hang"
    STRAGGLER = "straggler"
    SLOWDOWN = "slowdown"
    CRASH = "crash"
    BROKEN_JOB = "broken_job"
    GPU_FAULT = "gpu_fault"
    HARDWARE_WARNING = "hardware_warning"
    STALE_CHECKPOINT = "stale_checkpoint"
    OVERRIDE_MISMATCH = "override_mismatch"
    ENVIRONMENT_CHANGED = "environment_changed"
    EXPRESSION = "expression"


NUMERIC_KINDS = frozenset(
    {Kind.NON_FINITE, Kind.SPIKE, Kind.DIVERGENCE, Kind.DRIFT, Kind.LOSS_SCALE_COLLAPSE, Kind.TOO_GOOD, Kind.EXPRESSION}
)
"""Kinds that say the *state* of the model may be damaged from the onset on: a checkpoint at or after it is suspect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is wrong, since when, and why we believe it.

    Attributes:
        kind, severity: severity is fixed here and never raised or lowered afterwards.
        attempt: the attempt whose stream showed it.
        onset_step: first step that may be bad; None when the failure has none (a crash).
        detected_step: the newest step seen when the finding fired.
        visible_s: supervisor time at which the fault was first visible in what the trainer wrote.
        metric, value, baseline: the evidence, where the kind has one.
        blamed_rank, blamed_node: the rank, and the machine, the evidence points at.
        retryable: False where a relaunch cannot help (exit 3: configuration error).
        alert: the rule that made it, for a rule on an expression; None where a detector did.
        outside: the cause is known to lie outside what the run trains on and resumes from: memory, a GPU, the scheduler, a disk.
    """

    kind: Kind
    severity: Severity
    attempt: int
    onset_step: int | None
    detected_step: int
    visible_s: float
    reason: str
    metric: str | None = None
    value: float | None = None
    baseline: float | None = None
    blamed_rank: int | None = None
    retryable: bool = True
    alert: str | None = None
    outside: bool = False
    blamed_node: str = ""

    @property
    def key(self) -> str:
        """Identity across a restart of the supervisor: re-reading the same stream gives the same key."""
        step = self.onset_step if self.onset_step is not None else self.detected_step
        return f"{self.attempt}/{self.kind}/{self.alert or self.metric or '-'}/{step}"
