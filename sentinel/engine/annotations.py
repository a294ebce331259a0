"""The words a policy's author wrote for whoever reads the page: a rule's annotations with the incident's own values in them."""

from __future__ import annotations

import re

from sentinel.model.incidents import Incident
from sentinel.policy.schema import Policy, Rule

_PLACE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
UNKNOWN = "unknown"


def rule_of(policy: Policy, incident: Incident) -> Rule | None:
    """The rule that opened it, by its alert's name; None when a changed policy has it no more."""
    return next((rule for rule in policy.spec.rules if rule.alert == incident.alert), None)


def annotate(policy: Policy, incident: Incident) -> tuple[str, ...]:
    """Summary, description and where to read on, those that were written, each a line; what is not known reads `unknown`."""
    rule = rule_of(policy, incident)
    if rule is None:
        return ()
    words = rule.annotations
    runbook = f"runbook: {words.runbook_url}" if words.runbook_url else ""
    return tuple(fill(line, incident) for line in (words.summary, words.description, runbook) if line)


def fill(text: str, incident: Incident) -> str:
    """`{{ value }}`, `{{ step }}` and `{{ baseline }}` filled in."""
    step = incident.onset_step if incident.onset_step is not None else incident.break_step
    known = {"value": incident.value, "baseline": incident.baseline, "step": str(step)}
    return _PLACE.sub(lambda found: known.get(found[1]) or UNKNOWN, text)
