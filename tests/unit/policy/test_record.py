"""Recorded expressions: a name in a rule means what is recorded under it; circles, wrong names and places of errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sentinel.errors import PolicyError
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.policy.expr import BadExpression, parse_expression, parse_recorded
from sentinel.policy_files.explain import Assumed, explain
from sentinel.policy_files.loading import load_policy, read_policy_file
from tests.builders import Bench

RECORDS = (("level", "median(loss, 50 steps)"), ("high", "level > 1.2 * level && grad_norm > 2"), ("two", "1 + 1"))
HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\nspec:\n"


def written(tmp_path: Path, record: str, *rules: str) -> Path:
    path = tmp_path / "mine.yaml"
    listed = "".join(f"    - {{alert: A{number}, playbook: tell, expr: '{rule}'}}\n" for number, rule in enumerate(rules))
    path.write_text(f"{HEAD}  record:\n{record}\n  rules:\n{listed}")
    return path


@pytest.mark.parametrize(
    ("named", "spelled"),
    [
        ("level > 3", "median(loss, 50 steps) > 3"),
        ("two * level > 3", "(1 + 1) * median(loss, 50 steps) > 3"),
        ("!high || step > 3", "!(median(loss, 50 steps) > 1.2 * median(loss, 50 steps) && grad_norm > 2) || step > 3"),
    ],
)
def test_a_name_means_what_is_recorded_in_brackets(named: str, spelled: str) -> None:
    def without_places(node: Any) -> str:
        return re.sub(r"at=\d+", "", repr(node))

    assert without_places(parse_expression(named, RECORDS).root) == without_places(parse_expression(spelled).root)


def test_an_expression_knows_every_record_that_it_reads_and_where_it_names_it() -> None:
    expression = parse_expression("step > 3 && high", RECORDS)
    assert dict(expression.recorded) == {name: text for name, text in RECORDS if name != "two"}
    assert expression.metrics == {"loss": 12, "grad_norm": 12}, "a caret points at the name"
    assert parse_expression("level > 3").metrics == {"level": 0}, "without the record it is a metric"


@pytest.mark.parametrize(
    ("records", "text", "says", "at"),
    [
        ({"a": "b > 1", "b": "a + 1"}, "step > 1 && a", "a circle: a names b names a", 12),
        ({"a": "a > 1"}, "a", "a circle: a names a", 0),
        ({"a": "loss >"}, "step > 1 || a", "what is recorded as 'a' cannot be read: the expression ends", 12),
        ({"a": "loss"}, "mean(a, 50 steps) > 1", "'a' is a recorded expression, and functions look at one metric", 5),
        ({"a": "loss"}, "a && step > 1", "'&&' works on conditions", 2),
        ({"a": "loss > 1"}, "a > 1", "'>' works on numbers", 2),
        ({"a": " + ".join(["loss"] * 90), "b": "a + a"}, "a + b > 1", "more than 200 operands", 4),
        ({f"n{n}": f"n{n + 1} + 1" for n in range(9)} | {"n9": "loss"}, "n0 > 1", "more than 8 recorded expressions", 0),
    ],
)
def test_what_cannot_be_read_is_refused_at_the_name(records: dict[str, str], text: str, says: str, at: int) -> None:
    with pytest.raises(BadExpression) as refused:
        parse_expression(text, tuple(records.items()))
    assert says in str(refused.value)
    assert refused.value.at == at


def test_a_number_may_be_recorded_and_a_rule_needs_a_condition() -> None:
    assert parse_recorded("loss", ())
    with pytest.raises(BadExpression, match="this is a number"):
        parse_expression("level", RECORDS)


def test_errors_stand_where_they_were_written(tmp_path: Path) -> None:
    path = written(tmp_path, "    level: median(loss, 50)\n    round: round > 1", "level > 3")
    with pytest.raises(PolicyError) as refused:
        load_policy(path)
    text = str(refused.value)
    assert "mine.yaml:7:25: spec.record.level: '50' has no unit" in text
    assert "mine.yaml:8:12: spec.record.round: a circle: round names round" in text
    assert "spec.rules[0].expr: what is recorded as 'level' cannot be read" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("step", "is a word of expressions already"), ("median", "is a word of expressions already"),
        ("not", "is a word of expressions already"), ("grad_norm", "is a metric already"),
        ("a-b", "is not a name"), ("unused", "warning: spec.record.unused: no rule names this expression"),
    ],
)  # fmt: skip
def test_names_are_judged(tmp_path: Path, name: str, says: str) -> None:
    path = written(tmp_path, f"    {name}: loss + 1", "loss > 3")
    try:
        text = read_policy_file(path).print_warnings()
    except PolicyError as error:
        text = str(error)
    assert says in text


def test_a_child_changes_a_record_and_every_rule_of_the_base_that_names_it(tmp_path: Path) -> None:
    written(tmp_path, "    high: loss > 3", "high && step > 10")
    child = tmp_path / "child.yaml"
    child.write_text(HEAD.replace("default", "mine.yaml") + "  record: {high: loss > 7}\n")
    rule = load_policy(child).spec.rules[-1]
    assert rule.expr is not None
    assert dict(rule.expr.recorded) == {"high": "loss > 7"}


def test_the_rule_fires_by_what_is_recorded_and_explain_says_it(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, "    level: median(loss, 10 steps)\n    high: level > 7", "high && step > 30"))
    assert "where high is level > 7" in explain(policy, "A0", Assumed()).before
    assert "where level is median(loss, 10 steps)" in explain(policy, "A0", Assumed()).before
    bench = Bench(policy).launched()
    for step in range(1, 60):
        bench.step(step, 3.0 if step < 40 else 9.0)
    found = [fact.finding for fact in bench.of(f.FindingRecorded) if fact.finding.kind is Kind.EXPRESSION]
    assert [(finding.alert, finding.onset_step) for finding in found] == [("A0", 45)]
