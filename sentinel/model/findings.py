"""What a detector says: a verdict with its reason, and the finding that an unhealthy one becomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

Severity = Literal["info", "warning", "critical"]


class Verdict(StrEnum):
    """Three-valued on purpose: too little data, or a dead source, is unknown and never healthy."""

    HEALTHY = "healthy"
    BREACHED = "breached"
    UNKNOWN = "unknown"


class Kind(str):
    """One word for what can be wrong with a run. Equal words are one object, so that `is` compares them.

    The words that rules of the engine name stand below. A detector whose kind no rule names declares its own, in its module:
    `Kind("deep_loss", is_numeric=True)`; `sentinel.detectors.registry` lists all of them.

    is_numeric: the *state* of the model may be damaged from the onset on. A checkpoint at or after it is suspect, and the loss
    says whether it has healed. False for what is wrong with processes, machines and pace.
    """

    is_numeric: bool
    _declared: ClassVar[dict[str, Kind]] = {}

    NON_FINITE: ClassVar[Kind]
    SPIKE: ClassVar[Kind]
    DIVERGENCE: ClassVar[Kind]
    DRIFT: ClassVar[Kind]
    LOSS_SCALE_COLLAPSE: ClassVar[Kind]
    PLATEAU: ClassVar[Kind]
    TOO_GOOD: ClassVar[Kind]
    BEHIND_REFERENCE: ClassVar[Kind]
    GENERALISATION: ClassVar[Kind]
    PRECURSOR: ClassVar[Kind]
    HANG: ClassVar[Kind]
    STRAGGLER: ClassVar[Kind]
    SLOWDOWN: ClassVar[Kind]
    CRASH: ClassVar[Kind]
    PREEMPTED: ClassVar[Kind]
    BROKEN_JOB: ClassVar[Kind]
    GPU_FAULT: ClassVar[Kind]
    HARDWARE_WARNING: ClassVar[Kind]
    STALE_CHECKPOINT: ClassVar[Kind]
    OVERRIDE_MISMATCH: ClassVar[Kind]
    ENVIRONMENT_CHANGED: ClassVar[Kind]
    EXPRESSION: ClassVar[Kind]
    LOG_MATCH: ClassVar[Kind]
    ENGINE_TROUBLE: ClassVar[Kind]
    UNSEEN: ClassVar[Kind]
    NODE_SICK: ClassVar[Kind]
    CANNOT_ACT: ClassVar[Kind]
    UNREAD: ClassVar[Kind]

    def __new__(cls, word: str, is_numeric: bool | None = None) -> Kind:
        known = cls._declared.get(word)
        if known is None:
            known = cls._declared[str(word)] = super().__new__(cls, word)
            known.is_numeric = bool(is_numeric)
        assert is_numeric in (None, known.is_numeric), f"'{word}' is declared twice, and otherwise"
        return known

    def __reduce__(self) -> tuple[type[Kind], tuple[str, bool]]:
        return Kind, (str(self), self.is_numeric)


Kind.NON_FINITE = Kind("non_finite", is_numeric=True)
Kind.SPIKE = Kind("spike", is_numeric=True)
Kind.DIVERGENCE = Kind("divergence", is_numeric=True)
Kind.DRIFT = Kind("drift", is_numeric=True)
Kind.LOSS_SCALE_COLLAPSE = Kind("loss_scale_collapse", is_numeric=True)
Kind.PLATEAU = Kind("plateau")
Kind.TOO_GOOD = Kind("too_good", is_numeric=True)
Kind.BEHIND_REFERENCE = Kind("behind_reference")
Kind.GENERALISATION = Kind("generalisation")
Kind.PRECURSOR = Kind("precursor")
Kind.HANG = Kind("hang")
Kind.STRAGGLER = Kind("straggler")
Kind.SLOWDOWN = Kind("slowdown")
Kind.CRASH = Kind("crash")
Kind.PREEMPTED = Kind("preempted")
Kind.BROKEN_JOB = Kind("broken_job")
Kind.GPU_FAULT = Kind("gpu_fault")
Kind.HARDWARE_WARNING = Kind("hardware_warning")
Kind.STALE_CHECKPOINT = Kind("stale_checkpoint")
Kind.OVERRIDE_MISMATCH = Kind("override_mismatch")
Kind.ENVIRONMENT_CHANGED = Kind("environment_changed")
Kind.EXPRESSION = Kind("expression", is_numeric=True)
Kind.LOG_MATCH = Kind("log_match")
Kind.ENGINE_TROUBLE = Kind("engine_trouble")
Kind.UNSEEN = Kind("unseen")
Kind.NODE_SICK = Kind("node_sick")
Kind.CANNOT_ACT = Kind("cannot_act")
Kind.UNREAD = Kind("unread")


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
        log: the policy's entry over logs that says what the attempt died of; empty where none does.
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
    log: str = ""

    @property
    def key(self) -> str:
        """Identity across a restart of the supervisor: re-reading the same stream gives the same key."""
        step = self.onset_step if self.onset_step is not None else self.detected_step
        return f"{self.attempt}/{self.kind}/{self.alert or self.metric or '-'}/{step}"
