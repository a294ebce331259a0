"""What explains what: one believed cause is one incident, and its symptoms join it.

A table over kinds. A symptom is explained by an incident of the same attempt whose cause was believed at most so many seconds
before. Joining must not lose a repair, so three things stay incidents of their own, and only *say* what they are a symptom of:
- numeric findings: their onset keeps checkpoints from being resumed from (those among themselves: `ladder.owner_of`); and a
  crash after one, which may have died of something else, and whose restart respects that onset anyway;
- a death (crash, hang) where the cause's playbook has no relaunch left: nothing would start the run again;
- anything whose cause is closed.
A cause found after its symptom opens its own incident and acts as its own playbook says; while the symptom's recovery is under
way it is recorded as a member of it. An incident keeps its kind, and the remedy taken stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sentinel.detectors.disk_full import KIND as DISK_FULL
from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.policy.schema import Rung

DEATHS = frozenset({Kind.CRASH, Kind.HANG})
LATE_S = 120.0  # a cause is looked for so long behind its symptom


@dataclass(frozen=True, slots=True)
class Link:
    """`within_s`: seconds from the cause's detection to the symptom's."""

    cause: Kind
    symptom: Kind
    within_s: float
    why: str


# PyTorch ends a collective that hangs after 10 minutes by default, many jobs after 30: so late may the death come.
TIMEOUT_S = 1900.0
DAY_S = 86400.0
LINKS: tuple[Link, ...] = (
    Link(Kind.GPU_FAULT, Kind.CRASH, 600.0, "a failing GPU kills its rank"),
    Link(Kind.GPU_FAULT, Kind.HANG, 600.0, "a rank on a failing GPU answers no collective"),
    Link(Kind.GPU_FAULT, Kind.STRAGGLER, 3600.0, "a throttled or failing GPU is slow"),
    Link(Kind.GPU_FAULT, Kind.SLOWDOWN, 3600.0, "everybody waits for the slow GPU"),
    Link(Kind.GPU_FAULT, Kind.NON_FINITE, 600.0, "a failing GPU computes wrong numbers"),
    Link(Kind.GPU_FAULT, Kind.SPIKE, 600.0, "a failing GPU computes wrong numbers"),
    Link(Kind.HANG, Kind.CRASH, TIMEOUT_S, "the collective timeout ends ranks that wait"),
    Link(Kind.HANG, Kind.SLOWDOWN, TIMEOUT_S, "the silence counts as a slow step"),
    Link(Kind.HANG, Kind.STALE_CHECKPOINT, 7200.0, "no step, no checkpoint"),
    Link(Kind.CRASH, Kind.HANG, TIMEOUT_S, "the others wait for the rank that died"),
    Link(Kind.CRASH, Kind.STALE_CHECKPOINT, 7200.0, "no step, no checkpoint"),
    Link(DISK_FULL, Kind.CRASH, DAY_S, "a save that finds no room may end the trainer"),
    Link(DISK_FULL, Kind.STALE_CHECKPOINT, DAY_S, "no room, no checkpoint"),
    Link(Kind.STRAGGLER, Kind.SLOWDOWN, 3600.0, "everybody waits for the slowest rank"),
    Link(Kind.STRAGGLER, Kind.STALE_CHECKPOINT, 7200.0, "slow steps, late checkpoints"),
    Link(Kind.SLOWDOWN, Kind.STALE_CHECKPOINT, 7200.0, "slow steps, late checkpoints"),
    Link(Kind.NON_FINITE, Kind.CRASH, 600.0, "the trainer refuses to go on with NaN"),
    Link(Kind.LOSS_SCALE_COLLAPSE, Kind.CRASH, 600.0, "a scaler at its floor ends the run"),
)
BY_KINDS = {(link.cause, link.symptom): link for link in LINKS}


@dataclass(frozen=True, slots=True)
class ExplainedBy:
    """By which incident, in a sentence; `joins`: it belongs to it."""

    incident: Incident
    reason: str
    joins: bool


def explain(
    finding: Finding, incidents: Iterable[Incident], rungs_of: Mapping[int, Sequence[Rung]], now_s: float
) -> ExplainedBy | None:
    """The newest incident that explains the finding; None when it is a cause of its own.

    `rungs_of`: by incident number, the rungs of its playbook that are left to take.
    """
    for incident in sorted(incidents, key=lambda i: i.id, reverse=True):
        link = BY_KINDS.get((incident.kind, finding.kind))
        if link is None or incident.attempt != finding.attempt or now_s - incident.detected_s > link.within_s:
            continue
        named = f"symptom of incident {incident.id} ({incident.kind}): {link.why}"
        apart = _stays_apart(finding, incident, rungs_of.get(incident.id, ()))
        return ExplainedBy(incident, f"{named}; {apart}" if apart else named, joins=not apart)
    return None


def _stays_apart(finding: Finding, cause: Incident, left: Sequence[Rung]) -> str:
    """Why an explained finding is an incident of its own all the same; empty when it joins its cause."""
    if cause.state is not IncidentState.OPEN:
        return f"that one is {cause.state} already"
    if finding.kind.is_numeric:
        return "its onset limits where to resume, so it is repaired on its own"
    if cause.kind.is_numeric:
        return "this is restarted on its own, and never past that onset"
    if finding.kind in DEATHS and not any(rung.does("relaunches") for rung in left):
        return "its playbook relaunches nothing, so this is repaired on its own"
    return ""


def is_cause_of(finding: Finding, incidents: Iterable[Incident], now_s: float) -> ExplainedBy | None:
    """The open incident of the same attempt that this finding, though later, may have caused."""
    for incident in sorted(incidents, key=lambda i: i.id, reverse=True):
        link = BY_KINDS.get((finding.kind, incident.kind))
        late_s = now_s - incident.detected_s
        if link is not None and not incident.is_closed and incident.attempt == finding.attempt and late_s <= LATE_S:
            named = f"cause of incident {incident.id} ({incident.kind}), found {time_words(late_s)} after it: {link.why}"
            return ExplainedBy(incident, named, joins=False)
    return None


def link_of(decision: Decision, finding: Finding) -> ExplainedBy | None:
    """What the table of causes says: the incident this finding is a symptom of, else the one it may have caused."""
    incidents = decision.state.incidents
    left = {i.id: decision.rungs_of(i)[i.rung + 1 :] for i in incidents}
    return explain(finding, incidents, left, decision.now_s) or is_cause_of(finding, incidents, decision.now_s)


def record_meanwhile(decision: Decision, finding: Finding, link: ExplainedBy | None) -> None:
    """A recovery is under way: what belongs to it is a member of it. A numeric finding is not: its onset was not judged."""
    reason = "a recovery is already under way"
    if link is None:
        return decision.dismiss(finding, reason)
    member = link.incident.id if not link.incident.is_closed and not finding.kind.is_numeric else None
    return decision.record(f.FindingRecorded(finding, member, f"{reason}; {link.reason}"))


def join(decision: Decision, finding: Finding, link: ExplainedBy) -> str:
    """A symptom joins its cause. A death is a turn for the worse (why the rung has failed); any other symptom was to be
    expected, and is noted."""
    decision.record(f.FindingRecorded(finding, link.incident.id, link.reason))
    if finding.kind in DEATHS:
        return f"it got worse: {finding.reason}"
    decision.note(f.about_incident(link.incident.id), f"{link.reason}: {finding.reason}")
    return ""
