"""One document over another: what merges, what is replaced, what is taken out, and where every value says it stood."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.policy.inheritance import Origin, join

BASE: dict[str, Any] = {
    "metadata": {"name": "base", "description": "of the base"},
    "spec": {
        "mode": "act",
        "detectors": {"spike": {"z": 8, "metrics": ["loss", "grad_norm"]}, "hang": "off"},
        "rules": [
            {"alert": "A", "on": "spike", "labels": {"severity": "warning", "team": "x"}, "playbook": "one"},
            {"alert": "B", "on": "hang"},
            {"alert": "C", "on": "crash"},
        ],
        "playbooks": {"one": [{"page": {}}], "two": [{"hold": True}]},
        "paging": {
            "routes": [
                {"terminal": {}},
                {"pagerduty": {"routing_key": {"env": "KEY"}, "severity": "critical"}},
                {"command": {"name": "boss", "run": ["call"]}},
            ]
        },
    },
}


def spec(child: dict[str, Any], **more: Any) -> Any:
    joined = join([{"spec": child, **more}, BASE])
    assert joined.problems == ()
    return joined.value["spec"]


def test_an_empty_child_has_what_the_base_has_in_spec_and_nothing_else():
    assert spec({}) == BASE["spec"]
    assert join([{"extends": "base"}, BASE]).value == {"extends": "base", "spec": BASE["spec"]}


def test_mappings_merge_key_by_key_and_plain_lists_are_replaced():
    merged = spec({"detectors": {"spike": {"metrics": ["loss"]}, "drift": "off"}})
    assert merged["detectors"] == {"spike": {"z": 8, "metrics": ["loss"]}, "hang": "off", "drift": "off"}


def test_a_mapping_over_a_word_and_a_word_over_a_mapping_replace_it():
    assert spec({"detectors": {"spike": "off", "hang": {"floor": "6s"}}})["detectors"] == {
        "spike": "off",
        "hang": {"floor": "6s"},
    }


def test_rules_merge_by_name_in_place_and_new_ones_follow():
    merged = spec({"rules": [{"alert": "D", "on": "drift"}, {"alert": "A", "labels": {"severity": "critical"}}]})["rules"]
    assert [rule["alert"] for rule in merged] == ["A", "B", "C", "D"]
    assert merged[0] == {"alert": "A", "on": "spike", "labels": {"severity": "critical", "team": "x"}, "playbook": "one"}


@pytest.mark.parametrize(("written", "gone"), [("expr", "on"), ("on", "expr")])
def test_a_rule_on_something_else_gives_up_what_it_was_on(written, gone):
    base = {"spec": {"rules": [{"alert": "A", gone: "x", "playbook": "one"}]}}
    merged = join([{"spec": {"rules": [{"alert": "A", written: "y"}]}}, base]).value["spec"]["rules"]
    assert merged == [{"alert": "A", "playbook": "one", written: "y"}]


def test_a_playbook_is_replaced_as_a_whole():
    assert spec({"playbooks": {"one": [{"hold": True}]}})["playbooks"] == {"one": [{"hold": True}], "two": [{"hold": True}]}


def test_routes_merge_by_name_which_is_the_channel_where_none_is_given():
    merged = spec({"paging": {"routes": [{"pagerduty": {"after": "5m"}}, {"slack": {}}, {"pagerduty": {"name": "second"}}]}})
    assert merged["paging"]["routes"] == [
        {"terminal": {}},
        {"pagerduty": {"routing_key": {"env": "KEY"}, "severity": "critical", "after": "5m"}},
        {"command": {"name": "boss", "run": ["call"]}},
        {"slack": {}},
        {"pagerduty": {"name": "second"}},
    ]


def test_a_route_of_the_same_name_on_another_channel_takes_its_place():
    merged = spec({"paging": {"routes": [{"email": {"name": "boss", "host": "mail"}}]}})["paging"]["routes"]
    assert merged[2] == {"email": {"name": "boss", "host": "mail"}}


def test_a_secret_that_lies_elsewhere_is_no_longer_where_it_was_but_labels_are_free():
    key = spec({"paging": {"routes": [{"pagerduty": {"routing_key": {"file": "/key"}}}]}})["paging"]["routes"][1]["pagerduty"]
    assert key["routing_key"] == {"file": "/key"}
    base = {"spec": {"rules": [{"alert": "A", "labels": {"env": "prod"}}]}}
    labels = join([{"spec": {"rules": [{"alert": "A", "labels": {"file": "x"}}]}}, base]).value["spec"]["rules"][0]["labels"]
    assert labels == {"env": "prod", "file": "x"}


def test_what_is_removed_is_gone_and_may_be_written_anew():
    merged = spec(
        {"rules": [{"alert": "A", "on": "drift"}]},
        remove=[
            "rules.A",
            "spec.rules.B",
            "rules.C.on",
            "playbooks.two",
            "paging.routes.boss",
            "paging.routes.pagerduty.severity",
        ],
    )
    assert merged["rules"] == [{"alert": "C"}, {"alert": "A", "on": "drift"}]
    assert list(merged["playbooks"]) == ["one"]
    assert merged["paging"]["routes"] == [{"terminal": {}}, {"pagerduty": {"routing_key": {"env": "KEY"}}}]
    assert BASE["spec"]["rules"][0]["playbook"] == "one", "the base itself is untouched"


@pytest.mark.parametrize(
    ("word", "message", "remedy"),
    [
        ("rules.AA", "'spec.rules' of the policy it extends has no 'AA'", "known in 'spec.rules': B, C"),
        ("playbook.one", "'spec' of the policy it extends has no 'playbook'", "did you mean 'playbooks'?"),
        ("mode.x", "'spec.mode' of the policy it extends has no 'x'", "remove the line"),
        ("", "'spec' of the policy it extends has no ''", "known in 'spec'"),
    ],
)
def test_what_is_not_there_cannot_be_removed(word, message, remedy):
    ((source, problem),) = join([{"remove": ["rules.A", word]}, BASE]).problems
    assert (source, problem.path) == (0, "remove[1]")
    assert message in problem.message
    assert remedy in problem.remedy


def test_a_policy_that_extends_none_has_nothing_to_remove():
    ((source, problem),) = join([{"extends": "x"}, {"remove": ["rules.A"], "spec": {}}]).problems
    assert (source, problem.path, problem.message) == (
        1, "remove", "there is nothing to remove from: this policy extends no other",
    )  # fmt: skip


def test_a_name_that_stands_twice_in_one_document_is_refused_where_it_stands():
    twice = {"spec": {"rules": [{"alert": "A"}, {"alert": "A"}], "paging": {"routes": [{"slack": {}}, {"slack": {}}]}}}
    child, base = join([twice, BASE]).problems, join([{}, twice]).problems
    assert [(source, problem.path) for source, problem in child] == [(0, "spec.rules[1]"), (0, "spec.paging.routes[1]")]
    assert [source for source, _ in base] == [1, 1]


def test_three_documents_are_laid_over_each_other_from_the_farthest():
    middle = {"remove": ["rules.B"], "spec": {"mode": "observe", "detectors": {"spike": {"z": 9}}}}
    value = join([{"spec": {"detectors": {"spike": {"relative": 1}}}}, middle, BASE]).value["spec"]
    assert value["mode"] == "observe"
    assert value["detectors"]["spike"] == {"z": 9, "metrics": ["loss", "grad_norm"], "relative": 1}
    assert [rule["alert"] for rule in value["rules"]] == ["A", "C"]


def test_every_value_says_where_it_stood():
    child = {"spec": {"rules": [{"alert": "D"}, {"alert": "C", "for": "2 steps"}], "mode": "observe"}, "remove": ["rules.A"]}
    joined = join([child, BASE])
    assert joined.origin("spec.rules[0].on") == Origin(1, "spec.rules[1].on")
    assert joined.origin("spec.rules[1].for") == Origin(0, "spec.rules[1].for")
    assert joined.origin("spec.rules[1].on") == Origin(1, "spec.rules[2].on")
    assert joined.origin("spec.rules[1].playbook") == Origin(0, "spec.rules[1].playbook"), "missing: where the rule stands"
    assert joined.origin("spec.rules[2].alert") == Origin(0, "spec.rules[0].alert")
    assert joined.origin("document") == Origin(0, "document")
    assert joined.named("spec.rules[0].on is also spec.rules[2]") == "spec.rules.B.on is also spec.rules.D"


def test_what_a_child_writes_can_be_left_out_one_by_one():
    child = {
        "spec": {"mode": "observe", "rules": [{"alert": "A", "for": "2 steps"}, {"alert": "D"}]},
        "remove": ["playbooks.two"],
    }
    joined = join([child, BASE])
    assert joined.written == ("remove[0]", "spec.mode", "spec.rules[0].alert", "spec.rules[0].for", "spec.rules[1]")
    assert join([child, BASE], joined.written).value["spec"] == BASE["spec"]


@pytest.mark.parametrize(
    "strange", [3, "x", [], {"rules": 3}, {"rules": [3, {"alert": 3}]}, {"paging": {"routes": [{}, {"slack": 3}]}}]
)
def test_values_of_a_wrong_type_are_left_to_whoever_judges_them(strange):
    assert join([{"spec": strange}, BASE]).problems == ()
    assert join([{}, {"spec": strange}]).problems == ()
