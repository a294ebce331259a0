"""The first rule on a kind wins, and the answer says why."""

from __future__ import annotations

from sentinel.policy.match import Match, NoMatch, match_rule
from tests.unit.policy.policies_in_words import policy_with


def test_the_first_rule_on_the_kind_wins_and_names_those_passed_over():
    found = match_rule(policy_with(), "hang")
    assert isinstance(found, Match)
    assert (found.rule.alert, found.index) == ("Hang", 2)
    assert found.reason == "rule Hang (spec.rules[2]) is the first on hang; Spike is on spike, NonFinite is on non_finite"


def test_the_first_of_all_rules_needs_no_comparison():
    found = match_rule(policy_with(), "spike")
    assert isinstance(found, Match)
    assert found.reason == "rule Spike (spec.rules[0]) is the first on spike"


def test_no_rule_says_what_the_rules_are_on():
    policy = policy_with(rules=[{"alert": "Spike", "on": "spike", "playbook": "numeric"}])
    assert match_rule(policy, "plateau") == NoMatch("no rule is on plateau; Spike is on spike")
    assert match_rule(policy_with(rules=[]), "spike") == NoMatch("no rule is on spike; the policy has no rules")
