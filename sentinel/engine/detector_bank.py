"""The detectors as a policy tunes them: their settings, per kind the hold and severity of the rule that applies, and the rules on
expressions, compiled."""

from __future__ import annotations

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.disk_forecast import KeptCheckpoints
from sentinel.detectors.expression import ExpressionRule, Expressions, RunQuantities
from sentinel.detectors.hold import Hold
from sentinel.detectors.reference import Reference
from sentinel.detectors.registry import KINDS
from sentinel.model.findings import Kind, Severity
from sentinel.plan.retention import rule_of
from sentinel.policy.expr_compile import compile_expression
from sentinel.policy.match import Match, match_rule
from sentinel.policy.schema import Policy
from sentinel.streams.metric_memory import MetricMemory


def build_detector_bank(policy: Policy, reference: Reference | None = None) -> DetectorBank:
    holds: dict[Kind, Hold] = {}
    severities: dict[Kind, Severity] = {}
    for kind in KINDS:
        match = match_rule(policy, kind)
        if isinstance(match, Match):
            holds[kind] = match.rule.for_
            severities[kind] = match.rule.labels.severity
    rule = rule_of(policy) if policy.spec.mode == "act" else None
    kept = None if rule is None else KeptCheckpoints(rule.last, rule.every_steps, rule.reach_steps)
    return DetectorBank(policy.spec.detectors, holds, severities, reference, build_expressions(policy), kept)


def build_expressions(policy: Policy) -> Expressions | None:
    """The detector of all rules on expressions; None where there is none, so that nobody pays for what he does not use."""
    memory = MetricMemory()
    rules = [
        ExpressionRule(
            alert=rule.alert,
            condition=compile_expression(rule.expr, memory),
            hold=rule.for_,
            keep=rule.keep_firing_for,
            severity=rule.labels.severity,
            fire_on_nonfinite=rule.on_nonfinite == "fire",
        )
        for rule in policy.spec.rules
        if rule.expr is not None
    ]
    facts = RunQuantities(policy.spec.run.warmup_steps, policy.spec.run.tokens_per_step)
    return Expressions(rules, memory, facts) if rules else None
