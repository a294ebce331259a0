"""Deaths that a relaunch cannot help: the trainer says so itself, or launch after launch dies before its first step."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.state import REFUSED
from sentinel.policy.match import NoMatch, match_rule


def judge_job(decision: Decision, finding: Finding) -> Finding:
    """The finding of a death, or of a broken job: one that says so itself, or the last of too many that came before any step.
    Then the crash that the earlier deaths belong to is closed; it was never about anything else."""
    if not finding.retryable:
        return replace(finding, kind=Kind.BROKEN_JOB)
    deaths = deaths_before_a_step(decision)
    match = match_rule(decision.policy, Kind.BROKEN_JOB)
    if finding.kind is not Kind.CRASH or deaths < decision.policy.spec.budget.without_progress or isinstance(match, NoMatch):
        return finding
    if match.rule.playbook is None or match.rule.labels.severity == "info":
        return finding  # nobody would be called: the crash's own playbook does
    reason = f"broken job: {deaths} launches in a row died before their first step, the last so: {finding.reason}"
    for incident in decision.state.open_incidents:
        if not incident.is_numeric:
            if incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
                decision.record(f.RungJudged(incident.id, Outcome.FAILED, finding.reason))
            decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, reason))
    return replace(finding, kind=Kind.BROKEN_JOB, severity=match.rule.labels.severity, reason=reason, retryable=False)


def deaths_before_a_step(decision: Decision) -> int:
    """Launches in a row that died by themselves and were never seen to make a step, since a person last started the run."""
    count = 0
    for attempt in reversed(decision.state.attempts):
        if attempt.outcome == REFUSED:
            continue  # it was never started
        if attempt.outcome != "crashed" or attempt.first_step is not None or "metrics" in decision.state.blind:
            break
        count += 1
    return min(count, decision.state.without_progress)
