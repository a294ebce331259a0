"""Everything the engine may decide or take note of. Facts are journaled and synced before anything is done about them.

State is the fold of facts (`engine.evolve`), so a fact says what happened in full and is never reinterpreted: fields may
be added with defaults, a meaning never changes. The time of a fact is the journal entry's, not a field.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.actions import Action
from sentinel.model.facts_of_attempts import (
    AttemptEnded,
    AttemptLaunched,
    AttemptStopping,
    CheckpointCommitted,
    CheckpointCondemned,
    CheckpointsQuarantined,
    EnvironmentRead,
    FirstStep,
    ReceiptSeen,
)
from sentinel.model.facts_of_decay import LapseJudged, SettingLapsed
from sentinel.model.facts_of_incidents import (
    Attributed,
    BudgetRefilled,
    Diagnosed,
    FindingRecorded,
    GaveUp,
    IncidentMoved,
    IncidentOpened,
    InspectionLaunched,
    NodeExcluded,
    PlanAdopted,
    PlanDropped,
    Restored,
    RungJudged,
    RungTaken,
    StepsLost,
)
from sentinel.model.facts_of_pages import PageRaised, PageResolved
from sentinel.model.facts_of_wishes import ApprovalAsked, OverridesAnswered, WishAnswered
from sentinel.model.recorded import recorded_as

__all__ = [
    "ActionAbandoned",
    "ActionConfirmed",
    "ActionDecided",
    "ApprovalAsked",
    "AttemptEnded",
    "AttemptLaunched",
    "AttemptStopping",
    "Attributed",
    "BudgetRefilled",
    "CheckpointCommitted",
    "CheckpointCondemned",
    "CheckpointsQuarantined",
    "Diagnosed",
    "Entry",
    "EnvironmentRead",
    "Fact",
    "FindingRecorded",
    "FirstStep",
    "GaveUp",
    "Held",
    "IncidentMoved",
    "IncidentOpened",
    "InspectionLaunched",
    "LapseJudged",
    "NodeExcluded",
    "Noted",
    "OverridesAnswered",
    "PageRaised",
    "PageResolved",
    "PlanAdopted",
    "PlanDropped",
    "ReceiptSeen",
    "Restored",
    "RunCreated",
    "RunEnded",
    "RungJudged",
    "RungTaken",
    "SettingLapsed",
    "SourceChanged",
    "StepsLost",
    "StopAsked",
    "SupervisorTookOver",
    "WishAnswered",
]


@recorded_as("RunCreated")
@dataclass(frozen=True, slots=True)
class RunCreated:
    run_id: str
    command: tuple[str, ...]
    cwd: str
    policy_name: str
    policy_digest: str
    observe_only: bool
    capabilities: tuple[str, ...] = ()


@recorded_as("SupervisorTookOver")
@dataclass(frozen=True, slots=True)
class SupervisorTookOver:
    """A new supervisor session: who, under which epoch, by which policy.

    `answers`: starting it again is a person's answer to the end of the run. False while the page about that end has reached
    nobody and is still to be sent: then it is the restart of a supervisor that died, and nobody has decided anything.
    `capabilities`: as this session was told; None in journals that only say it when the run began.
    """

    epoch: int
    host: str
    pid: int
    policy_name: str
    policy_digest: str
    observe_only: bool
    answers: bool = True
    capabilities: tuple[str, ...] | None = None


@recorded_as("ActionDecided")
@dataclass(frozen=True, slots=True)
class ActionDecided:
    """The intent. `action` is carried out after this is on disk, and asked for again until it is confirmed."""

    action: Action


@recorded_as("ActionConfirmed")
@dataclass(frozen=True, slots=True)
class ActionConfirmed:
    key: str
    detail: str = ""


@recorded_as("ActionAbandoned")
@dataclass(frozen=True, slots=True)
class ActionAbandoned:
    """The action failed for good, or is no longer wanted (`withdrawn`: under way, so it may take effect all the same)."""

    key: str
    reason: str
    withdrawn: bool = False


@recorded_as("StopAsked")
@dataclass(frozen=True, slots=True)
class StopAsked:
    by: str


@recorded_as("SourceChanged")
@dataclass(frozen=True, slots=True)
class SourceChanged:
    source: str
    ok: bool
    reason: str


ABOUT_SOURCE = "source"  # of notes that say what a source remarked


@recorded_as("Noted")
@dataclass(frozen=True, slots=True)
class Noted:
    """A decision not to act, or anything else a person will ask about later."""

    about: str
    reason: str


@recorded_as("Held")
@dataclass(frozen=True, slots=True)
class Held:
    """Training is stopped and a person must decide."""

    reason: str


@recorded_as("RunEnded")
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
    | EnvironmentRead
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
    | WishAnswered
    | ApprovalAsked
    | OverridesAnswered
    | Diagnosed
    | InspectionLaunched
    | Attributed
    | SettingLapsed
    | LapseJudged
    | NodeExcluded
    | PageRaised
    | PageResolved
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal: a fact, when (session clock, Unix-like seconds), and under which supervisor epoch."""

    seq: int
    at_s: float
    epoch: int
    fact: Fact
