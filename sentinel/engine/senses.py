"""The detectors as a policy tunes them: their settings, and per kind the hold and severity of the rule that applies."""

from __future__ import annotations

from sentinel.detectors.behind_reference import Reference
from sentinel.detectors.catalog import Senses
from sentinel.detectors.hold import Hold
from sentinel.model.findings import Kind, Severity
from sentinel.policy.match import Match, match_rule
from sentinel.policy.schema import Policy


def build_senses(policy: Policy, reference: Reference | None = None) -> Senses:
    holds: dict[Kind, Hold] = {}
    severities: dict[Kind, Severity] = {}
    for kind in Kind:
        match = match_rule(policy, kind.value)
        if isinstance(match, Match):
            holds[kind] = Hold(match.rule.for_.steps, match.rule.for_.seconds)
            severities[kind] = match.rule.labels.severity
    return Senses(policy.spec.detectors, holds, severities, reference)
