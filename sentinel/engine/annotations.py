"""What a policy's author wrote for whoever reads a page, and for what sorts pages: a rule's annotations with the incident's own
values in them, and its labels."""

from __future__ import annotations

import re

from sentinel.model.incidents import Incident
from sentinel.policy.schema import Policy, Rule

_PLACE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
UNKNOWN = "unknown"


def rule_of(policy: Policy, incident: Incident) -> Rule | None:
    """The rule that opened it, by its alert's name; None when a changed policy has it no more."""
    return next((rule for rule in policy.spec.rules if rule.alert == incident.alert), None)


def notes_of(policy: Policy, incident: Incident) -> tuple[str, ...]:
    """Summary and description, those that were written; what is not known reads `unknown`."""
    rule = rule_of(policy, incident)
    written = (rule.annotations.summary, rule.annotations.description) if rule is not None else ()
    return tuple(fill(line, incident) for line in written if line)


def runbook_of(policy: Policy, incident: Incident) -> str:
    """Where the author sends whoever reads on; empty where that was not written."""
    rule = rule_of(policy, incident)
    return fill(rule.annotations.runbook_url, incident) if rule is not None else ""


def labels_of(policy: Policy, alert: str) -> tuple[tuple[str, str], ...]:
    """The labels of a rule, by its alert's name, without its severity; none where the policy has no such rule."""
    rule = next((rule for rule in policy.spec.rules if rule.alert == alert), None)
    return tuple(sorted((rule.labels.model_extra or {}).items())) if rule is not None else ()


def fill(text: str, incident: Incident) -> str:
    """`{{ value }}`, `{{ step }}` and `{{ baseline }}` filled in."""
    step = incident.onset_step if incident.onset_step is not None else incident.break_step
    known = {"value": incident.value, "baseline": incident.baseline, "step": str(step)}
    return _PLACE.sub(lambda found: known.get(found[1]) or UNKNOWN, text)
