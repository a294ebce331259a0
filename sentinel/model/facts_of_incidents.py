"""Facts about what is wrong and what is done about it. How facts work is said in `facts`."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.actions import Action
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.model.recorded import recorded_as
from sentinel.model.records import Attribution, Diagnosis


@recorded_as("FindingRecorded")
@dataclass(frozen=True, slots=True)
class FindingRecorded:
    """`became` is the incident it opened or belongs to; None for severity info and for findings no rule wants."""

    finding: Finding
    became: int | None
    reason: str


@recorded_as("IncidentOpened")
@dataclass(frozen=True, slots=True)
class IncidentOpened:
    incident: Incident


@recorded_as("RungTaken")
@dataclass(frozen=True, slots=True)
class RungTaken:
    incident: int
    remedy: Remedy
    intervention: bool  # counts against the budget
    step: int  # the newest step when it was taken


@recorded_as("RungJudged")
@dataclass(frozen=True, slots=True)
class RungJudged:
    """`struck_step`: where it broke again, of a rung that failed of that."""

    incident: int
    outcome: Outcome
    reason: str
    struck_step: int | None = None


@recorded_as("IncidentMoved")
@dataclass(frozen=True, slots=True)
class IncidentMoved:
    """A move in the incident's table; `reason` is the sentence a person reads. `benign`: it healed, and nothing had been done.
    `back_step`: since when the judged metric stood in its band again, which is earlier than the verdict; None if not known."""

    incident: int
    to: IncidentState
    reason: str
    benign: bool | None = None
    back_step: int | None = None


@recorded_as("Diagnosed")
@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What repeating the failed stretch unchanged has proved."""

    incident: int
    diagnosis: Diagnosis


@recorded_as("InspectionLaunched")
@dataclass(frozen=True, slots=True)
class InspectionLaunched:
    """An attempt that trains nothing: it looks at single samples for an incident. Its number is used up from here on."""

    incident: int
    attempt: int


@recorded_as("Attributed")
@dataclass(frozen=True, slots=True)
class Attributed:
    """What looking at the samples of the rung's window has shown."""

    incident: int
    rung: int
    attribution: Attribution


@recorded_as("Restored")
@dataclass(frozen=True, slots=True)
class Restored:
    """The run made its first step past the incident's break: training new ground again."""

    incident: int
    step: int


@recorded_as("NodeExcluded")
@dataclass(frozen=True, slots=True)
class NodeExcluded:
    """Every later attempt is launched without this node, until a person readmits it."""

    node: str
    incident: int
    reason: str


@recorded_as("StepsLost")
@dataclass(frozen=True, slots=True)
class StepsLost:
    incident: int
    steps: int


@recorded_as("PlanAdopted")
@dataclass(frozen=True, slots=True)
class PlanAdopted:
    """The ordered actions that carry out a remedy; each is decided when the one before it is confirmed. `reason`: why an
    attempt is launched so, which is not what the remedy first said when a checkpoint has been passed over since."""

    incident: int | None
    actions: tuple[Action, ...]
    reason: str = ""


@recorded_as("PlanDropped")
@dataclass(frozen=True, slots=True)
class PlanDropped:
    reason: str


@recorded_as("BudgetRefilled")
@dataclass(frozen=True, slots=True)
class BudgetRefilled:
    """Enough new steps were trained since the last intervention: the counts start again."""

    reason: str


@recorded_as("GaveUp")
@dataclass(frozen=True, slots=True)
class GaveUp:
    """Out of remedies. `then` is what becomes of the training: stop_now | hold | keep_training."""

    incident: int
    then: str
    reason: str
