"""Where an open incident stands when the playbooks are those of another policy.

A rung is known again by its mark, that is by all that it says, whatever its place; `further` and `wider` say something only with
the rungs before them. So an incident keeps its place where the new
playbook has the rung it stands at. Where it has not, the incident begins the new playbook at its first rung, and passes over what
it has tried in vain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, Outcome
from sentinel.policy.match import Match, match_rule
from sentinel.policy.schema import Policy, Rung

BEFORE_FIRST = -1


@dataclass(frozen=True, slots=True)
class PlaybookPlace:
    """As in the fact `PlaybookChanged`."""

    playbook: str
    rung: int
    reason: str
    asked_rung: int | None = None


def marks_of(rungs: Sequence[Rung]) -> tuple[str, ...]:
    """Of each rung: the same for two that ask for the same, and for no others."""
    marks: list[str] = []
    for rung in rungs:
        before = marks[-1] if marks and rung.is_relative else ""
        marks.append(hashlib.sha256(f"{before} {rung.values!r}".encode()).hexdigest()[:16])
    return tuple(marks)


def playbook_of(incident: Incident, policy: Policy) -> str:
    """That of the rule with its alert's name, else of the rule that takes its kind; empty where none has one."""
    rule = next((rule for rule in policy.spec.rules if rule.alert == incident.alert), None)
    if rule is None and incident.kind is not Kind.EXPRESSION:
        match = match_rule(policy, incident.kind)
        rule = match.rule if isinstance(match, Match) else None
    return rule.playbook or "" if rule is not None else ""


def find_place(incident: Incident, policy: Policy) -> PlaybookPlace | None:
    """Where an open incident stands in the playbook of the rule that takes it now; None where nothing changes for it."""
    name = playbook_of(incident, policy)
    rungs = policy.spec.playbooks.get(name, ())
    at = _place_of(incident, rungs)
    asked = incident.approval if incident.awaits_approval else None
    asked_at = None if asked is None else _find(rungs, asked.mark, asked.rung)
    if asked is not None and asked_at is not None:
        at = min(at, asked_at) if at >= 0 or incident.rung < 0 else asked_at - 1
    elif asked is not None:
        at = BEFORE_FIRST
    if (name, at, asked_at) == (incident.playbook, incident.rung, asked.rung if asked is not None else None):
        return None
    return PlaybookPlace(name, at, _reason(incident, name, at, rungs), asked_at)


def _place_of(incident: Incident, rungs: Sequence[Rung]) -> int:
    last = incident.last_try
    if incident.rung < 0 or last is None:
        return BEFORE_FIRST
    if not last.mark:  # taken by a version that kept no marks: the same words at the same place are taken for the same
        is_same = incident.rung < len(rungs) and rungs[incident.rung].keys == last.remedy.words
        return incident.rung if is_same else BEFORE_FIRST
    found = _find(rungs, last.mark, incident.rung)
    return BEFORE_FIRST if found is None else found


def _find(rungs: Sequence[Rung], mark: str, near: int) -> int | None:
    """The rung that says the same: the one at the same place first."""
    marks = marks_of(rungs)
    if near < len(marks) and marks[near] == mark:
        return near
    return marks.index(mark) if mark in marks else None


def _reason(incident: Incident, name: str, at: int, rungs: Sequence[Rung]) -> str:
    if not rungs:
        return f"no rule of the policy in force has a playbook for it (it had {incident.playbook}): nothing more is tried"
    named = f"playbook {name}" if name == incident.playbook else f"playbook {name}, in the place of {incident.playbook},"
    if at == BEFORE_FIRST:
        return f"it begins {named} at its first rung, without what it has tried in vain"
    return f"it stands at rung {at + 1} of {named}"


def was_tried(incident: Incident, rungs: Sequence[Rung], index: int) -> bool:
    """Whether this very rung has failed for the incident under the policy before."""
    earlier = incident.tries[: incident.relaid_tries or 0]
    return bool(earlier) and marks_of(rungs)[index] in {one.mark for one in earlier if one.outcome is Outcome.FAILED}
