"""What an attempt runs is compared with what the attempts before it ran: a library, a file or a variable that changed in between
is a finding, dated at the launch, and policy says what follows. What could not be read is on record as unknown."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.ladder import consider
from sentinel.model import facts as f
from sentinel.model.environment import Environment
from sentinel.model.findings import Finding, Kind
from sentinel.plan.environment import changes_in_words, compare_commands, compare_environments, merge
from sentinel.policy.match import Match, match_rule


def on_launched(decision: Decision, attempt: int, found: Environment) -> None:
    """The attempt was started, and its spec.json says with what. Every launch is on record, a difference once. A command that a
    person has changed is one, too."""
    before = decision.state.environment
    changes = compare_environments(before, found) if before is not None else ()
    if decision.state.command_before:
        changes = (compare_commands(decision.state.command_before, decision.state.command), *changes)
    is_same = before is not None and merge(before, found) == before
    decision.record(f.EnvironmentRead(attempt, None if is_same else found, changes, (*found.unknown, *found.capped)))
    if not changes:
        return None
    match = match_rule(decision.policy, Kind.ENVIRONMENT_CHANGED)
    severity = match.rule.labels.severity if isinstance(match, Match) else "info"
    reason = f"attempt {attempt} does not run what ran before it: {changes_in_words(changes)}"
    finding = Finding(Kind.ENVIRONMENT_CHANGED, severity, attempt, None, decision.newest_step, decision.now_s, reason)
    if decision.state.stop_by or decision.state.hold_by:
        return decision.dismiss(finding, "the run is being stopped or held")
    return consider(decision, finding)
