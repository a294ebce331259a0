"""The shipped policies hold the values they had when each was written out in full, before they extended default.yaml.

`shipped_values.json` was taken from those files. What the language has gained since (a rule, a setting) is passed over.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sentinel.policy.expr_tree import Expression
from sentinel.policy_files.loading import load_policy, shipped_policies, shipped_policy_path

BEFORE: dict[str, Any] = json.loads((Path(__file__).parent / "shipped_values.json").read_text(encoding="utf-8"))


def plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields} | (value.model_extra or {})
    if isinstance(value, Expression):
        return {"text": value.text}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    return [plain(child) for child in value] if isinstance(value, tuple) else value


def differences(before: Any, now: Any, path: str = "") -> list[str]:
    """Where a value is another one now, or is gone. Rules are compared by their names."""
    if path == ".spec.rules":
        before, now = ({rule["alert"]: rule for rule in rules} for rules in (before, now))
    if isinstance(before, dict) and isinstance(now, dict):
        return [line for key in before for line in differences(before[key], now.get(key, "gone"), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [line for n, (old, new) in pairs for line in differences(old, new, f"{path}[{n}]")]
    return [] if before == now else [f"{path}: {before!r}, now {now!r}"]


def test_the_comparison_sees_a_changed_and_a_missing_value():
    assert differences({"a": {"b": 1, "c": [1]}}, {"a": {"b": 2, "d": 3}}) == [".a.b: 1, now 2", ".a.c: [1], now 'gone'"]


def test_the_comparison_looks_into_lists_and_passes_over_what_is_new_there():
    before = {"routes": [{"terminal": {}, "slack": None}]}
    assert differences(before, {"routes": [{"terminal": {}, "slack": None, "pigeon": None}]}) == []
    assert differences(before, {"routes": [{"terminal": {}, "slack": {}}]}) == [".routes[0].slack: None, now {}"]
    assert differences(before, {"routes": []}) == [".routes: [{'terminal': {}, 'slack': None}], now []"]


@pytest.mark.parametrize("name", BEFORE)
def test_a_shipped_policy_has_the_values_it_had(name):
    policy = load_policy(shipped_policy_path(name))
    now = {"metadata": plain(policy.metadata), "spec": plain(policy.spec)}
    assert differences(BEFORE[name], now) == []
    gained = {rule["alert"] for rule in now["spec"]["rules"]} - {rule["alert"] for rule in BEFORE[name]["spec"]["rules"]}
    assert not gained & {rule["alert"] for rule in BEFORE["default"]["spec"]["rules"]}, "a rule of the default came in"


@pytest.mark.parametrize("name", BEFORE)
def test_the_rules_stand_in_the_order_they_had(name):
    """The histories wrote the rules they change first. Each finding has one rule, so the order of rules on findings says nothing;
    rules on expressions are judged in their order."""
    rules = load_policy(shipped_policy_path(name)).spec.rules
    before = BEFORE[name]["spec"]["rules"]
    on_expressions = [rule["alert"] for rule in before if rule["expr"] is not None]
    assert [rule.alert for rule in rules if rule.expr is not None] == on_expressions
    if name not in ("opt-175b", "bloom-104b", "palm-540b"):
        known = {rule["alert"] for rule in before}
        assert [rule.alert for rule in rules if rule.alert in known] == [rule["alert"] for rule in before]


def test_every_policy_that_was_shipped_still_is():
    assert set(BEFORE) <= set(shipped_policies())
