"""A stop that nobody asked sentinel for: a scheduler took the machine, or somebody else signalled the ranks. It is an incident,
and policy says what follows. A policy that has no rule on it treats it as a crash.

Nothing is wrong with the run, so its relaunch is no intervention: however often it is evicted, a run that gains steps is
relaunched. `budget.restarts` makes it wait, and past `budget.preemptions` a person is told."""

from __future__ import annotations

import math

from sentinel.detectors.crash import Ended, Failed, Finished, Stopped
from sentinel.engine.decision import Decision
from sentinel.engine.paging import page
from sentinel.model.amounts import time_words
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident
from sentinel.policy.budget import BudgetVerdict
from sentinel.policy.match import Match, NoMatch, match_rule
from sentinel.policy.quantities import show_duration
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


def was_preempted(incident: Incident) -> bool:
    """Its relaunch is no intervention, and waits for the shortest pause also after progress: whoever took the machine away may
    still be at it."""
    return incident.kind is Kind.PREEMPTED


def may_wait(incident: Incident, verdict: BudgetVerdict) -> bool:
    """A rate that time frees ends no run that was only preempted: its relaunch waits for that."""
    return was_preempted(incident) and math.isfinite(verdict.wait_s)


def tell_of_many(decision: Decision, incident: Incident, verdict: BudgetVerdict) -> None:
    """Call a person when the run is stopped from outside again and again, once in the period of `budget.preemptions`. The run
    goes on meanwhile."""
    state, rate = decision.state, decision.policy.spec.budget.preemptions
    since_s = decision.now_s - rate.period_s
    times = sum(a.outcome == "preempted" and a.ended_s is not None and a.ended_s > since_s for a in state.attempts)
    if not was_preempted(incident) or (verdict.allowed and times <= rate.count):
        return
    if any(was_preempted(one) and one.page is not None and one.page.raised_s > since_s for one in state.incidents):
        return
    why = f"stopped from outside {times} times within {show_duration(rate.period_s)} (budget: {rate.count})"
    reason = why if verdict.allowed else f"{why}; {verdict.reason}"
    wait = f" in {time_words(verdict.wait_s)}" if verdict.wait_s else ""
    follows = f"sentinel relaunches it by itself{wait}, and again after the next stop"
    page(decision, incident.id, incident.severity, reason, follows)
