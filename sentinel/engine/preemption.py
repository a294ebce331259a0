"""A stop that nobody asked sentinel for: a scheduler took the machine, or somebody else signalled the ranks. It is an incident,
and policy says what follows. A policy that has no rule on it treats it as a crash."""

from __future__ import annotations

from sentinel.detectors.crash import Ended, Failed, Finished, Stopped
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident
from sentinel.policy.match import Match, NoMatch, match_rule
from sentinel.policy.schema import Policy


def outcome_of(ended: Ended) -> str:
    """The word of `AttemptEnded`."""
    match ended:
        case Finished():
            return "finished"
        case Stopped():
            return "stopped"
        case Failed(finding=finding):
            return "preempted" if finding.kind is Kind.PREEMPTED else "crashed"


def as_the_policy_knows(policy: Policy, finding: Finding) -> Finding:
    """The finding under a kind that the policy has a rule on."""
    if finding.kind is not Kind.PREEMPTED or isinstance(match_rule(policy, Kind.PREEMPTED), Match):
        return finding
    crash = match_rule(policy, Kind.CRASH)
    if isinstance(crash, NoMatch):
        return finding
    return replace(finding, kind=Kind.CRASH, severity=crash.rule.labels.severity)


def must_pause(incident: Incident) -> bool:
    """Whoever took the machine away may still be at it: the relaunch waits for the shortest pause, also after progress."""
    return incident.kind is Kind.PREEMPTED
