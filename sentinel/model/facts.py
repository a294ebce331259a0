"""Everything the engine may decide or take note of. Facts are journaled and synced before anything is done about them.

State is the fold of facts (`engine.evolve`), so a fact says what happened in full and is never reinterpreted: fields may
be added with defaults, a meaning never changes. The time of a fact is the journal entry's, not a field.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.actions import Action
from sentinel.model.attempts import Overrides, RankExit, ResumePoint
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy


@dataclass(frozen=True, slots=True)
class RunCreated:
    run_id: str
    command: tuple[str, ...]
    cwd: str
    policy_name: str
    policy_digest: str
    observe_only: bool
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SupervisorTookOver:
    """A new supervisor session: who, under which epoch, by which policy."""

    epoch: int
    host: str
    pid: int
    policy_name: str
    policy_digest: str
    observe_only: bool


@dataclass(frozen=True, slots=True)
class ActionDecided:
    """The intent. `action` is carried out after this is on disk, and asked for again until it is confirmed."""

    action: Action


@dataclass(frozen=True, slots=True)
class ActionConfirmed:
    key: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ActionAbandoned:
    """The action failed for good, or is no longer wanted."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptLaunched:
    """The attempt exists from here on (its start was decided; the launcher makes it so)."""

    attempt: int
    resume: ResumePoint | None
    overrides: Overrides
    why: str


@dataclass(frozen=True, slots=True)
class ReceiptSeen:
    """The trainer said what is in force. `resumed_step` is where it really resumed."""

    attempt: int
    resumed_step: int
    world_size: int


@dataclass(frozen=True, slots=True)
class FirstStep:
    attempt: int
    step: int


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A checkpoint with a manifest. `samples_end` is its data cursor; `seconds` what its save cost the trainer."""

    attempt: int
    step: int
    path: str
    samples_end: int
    digest: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckpointCondemned:
    """Not to be resumed from: its digests do not match, or it lies at or after an onset."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointsQuarantined:
    """Every checkpoint above the step was moved aside; the run's newest is now at or below it."""

    above_step: int
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptStopping:
    """The end of this attempt is wanted (a plan, a person); its exit is no crash."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    attempt: int
    outcome: str  # finished | stopped | crashed | killed | lost
    reason: str
    last_step: int
    last_step_s: float
    ranks: tuple[RankExit, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingRecorded:
    """`became` is the incident it opened or belongs to; None for severity info and for findings no rule wants."""

    finding: Finding
    became: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class IncidentOpened:
    incident: Incident


@dataclass(frozen=True, slots=True)
class RungTaken:
    incident: int
    remedy: Remedy
    intervention: bool  # counts against the budget
    step: int  # the newest step when it was taken


@dataclass(frozen=True, slots=True)
class RungJudged:
    incident: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class IncidentMoved:
    """A move in the incident's table; `reason` is the sentence a person reads."""

    incident: int
    to: IncidentState
    reason: str
    benign: bool | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """The run made its first step past the incident's break: training new ground again."""

    incident: int
    step: int


@dataclass(frozen=True, slots=True)
class StepsLost:
    incident: int
    steps: int


@dataclass(frozen=True, slots=True)
class PlanAdopted:
    """The ordered actions that carry out a remedy; each is decided when the one before it is confirmed."""

    incident: int | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class PlanDropped:
    reason: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    by: str


@dataclass(frozen=True, slots=True)
class SourceChanged:
    source: str
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A decision not to act, or anything else a person will ask about later."""

    about: str
    reason: str


@dataclass(frozen=True, slots=True)
class Held:
    """Training is stopped and a person must decide."""

    reason: str


@dataclass(frozen=True, slots=True)
class BudgetRefilled:
    """Enough new steps were trained since the last intervention: the counts start again."""

    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Out of remedies. `then` is what becomes of the training: stop_now | hold | keep_training."""

    incident: int
    then: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    outcome: str  # finished | failed | stopped
    reason: str


Fact = (
    RunCreated
    | SupervisorTookOver
    | ActionDecided
    | ActionConfirmed
    | ActionAbandoned
    | AttemptLaunched
    | ReceiptSeen
    | FirstStep
    | CheckpointCommitted
    | CheckpointCondemned
    | CheckpointsQuarantined
    | AttemptStopping
    | AttemptEnded
    | FindingRecorded
    | IncidentOpened
    | RungTaken
    | RungJudged
    | IncidentMoved
    | Restored
    | StepsLost
    | PlanAdopted
    | PlanDropped
    | StopAsked
    | SourceChanged
    | Noted
    | Held
    | BudgetRefilled
    | GaveUp
    | RunEnded
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal: a fact, when (session clock, Unix-like seconds), and under which supervisor epoch."""

    seq: int
    at_s: float
    epoch: int
    fact: Fact
