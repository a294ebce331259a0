"""Which rule a finding falls under. The first rule on its kind wins; what an expression found belongs to its own rule. The answer
says why, either way."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.policy.schema import Policy, Rule


@dataclass(frozen=True, slots=True)
class Match:
    """`rule` is the one that applies, the `index`th of the policy."""

    rule: Rule
    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No rule applies: the finding is recorded and nothing is done."""

    reason: str


def match_rule(policy: Policy, kind: str, alert: str | None = None) -> Match | NoMatch:
    """The first rule on `kind`, one of the finding kinds (text or the model's enumeration); `alert`: the rule on an expression
    that made the finding."""
    rules = policy.spec.rules
    if alert is not None:
        own = next((index for index, rule in enumerate(rules) if rule.expr is not None and rule.alert == alert), None)
        if own is None:
            return NoMatch(f"no rule {alert} with an expression; {_others(rules) or 'the policy has no rules'}")
        return Match(rules[own], own, f"rule {alert} (spec.rules[{own}]) is on its own expression")
    index = next((index for index, rule in enumerate(rules) if rule.on == kind), None)
    if index is None:
        return NoMatch(f"no rule is on {kind}; {_others(rules) or 'the policy has no rules'}")
    rule = rules[index]
    reason = f"rule {rule.alert} (spec.rules[{index}]) is the first on {kind}"
    passed = _others(rules[:index])
    return Match(rule, index, f"{reason}; {passed}" if passed else reason)


def _others(rules: tuple[Rule, ...]) -> str:
    return ", ".join(f"{rule.alert} is on {rule.on or 'an expression'}" for rule in rules)
