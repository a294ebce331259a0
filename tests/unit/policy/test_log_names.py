"""Entries over logs without a name: each has one of its own, which does not change with what stands around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.errors import PolicyError
from sentinel.policy.inheritance import join
from sentinel.policy.log_names import name_of_entry
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy_files.explain import explain_rules
from sentinel.policy_files.loading import load_policy
from tests.builders import build_policy

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\nspec:\n  logs:\n"
LINK: dict[str, Any] = {"match": "mlx5_[0-9]+: link down", "page": "warning"}
ECC: dict[str, Any] = {"match": r"ECC error on GPU (?P<gpu>\d+)", "class": "sick GPU {{ gpu }}", "node": "exclude"}


def names(*logs: dict[str, Any]) -> list[str]:
    return [rule.name for rule in build_policy(logs=list(logs)).spec.logs]


def test_the_class_or_the_pattern_gives_the_name_and_a_digest_of_the_pattern_keeps_it_apart() -> None:
    assert names(LINK, ECC) == ["mlx5-link-down-c89745", name_of_entry(ECC["match"], ECC["class"])]
    assert names(ECC)[0].startswith("sick-GPU-")
    assert names({"match": r"^\d+$"})[0].startswith("log-")
    other = ECC | {"match": "Xid 63 on (?P<gpu>.)"}
    assert len({*names(ECC, other)}) == 2, "two patterns of one class"


def test_it_stays_the_same_whatever_stands_around_it() -> None:
    assert names(ECC, LINK)[0] == names(LINK, ECC)[1] == names(ECC)[0]


def test_a_written_name_is_left_as_it_is() -> None:
    (rule,) = build_policy(logs=[LINK | {"name": "LinkFlap"}]).spec.logs
    assert (rule.name, rule.found) == ("LinkFlap", "LinkFlap")


def test_people_read_the_class_or_the_pattern_and_no_digest() -> None:
    link, ecc = build_policy(logs=[LINK, ECC]).spec.logs
    assert link.found == "a line that matches 'mlx5_[0-9]+: link down'"
    assert ecc.found == "sick GPU {{ gpu }}"
    (long,) = build_policy(logs=[{"match": "x" * 500}]).spec.logs
    assert len(long.found) < 120


def test_the_same_entry_twice_is_refused_and_a_wrong_pattern_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}    - {{match: link down}}\n    - {{match: link down, page: warning}}\n")
    with pytest.raises(PolicyError, match="'link-down-1f73ba' stands here twice: it is also spec"):
        load_policy(path)
    for wrong in ({"match": "sick (GPU"}, {"page": "warning"}):
        _, problems = validate_policy({**build_plain(), "spec": {**build_plain()["spec"], "logs": [wrong]}})
        assert len(problems) == 1


def build_plain() -> dict[str, Any]:
    return {
        "apiVersion": "sentinel/v1", "kind": "RemediationPolicy", "metadata": {"name": "mine"}, "spec": {"rules": []},
    }  # fmt: skip


def test_a_policy_that_extends_one_meets_its_entry_and_can_remove_it() -> None:
    base = {"spec": {"logs": [LINK, ECC]}}
    over = {"spec": {"logs": [LINK | {"page": "critical"}]}}
    joined = join([over, base])
    assert [entry["match"] for entry in joined.value["spec"]["logs"]] == [LINK["match"], ECC["match"]]
    assert joined.value["spec"]["logs"][0]["page"] == "critical"
    left = join([{"spec": {}, "remove": ["logs.mlx5-link-down-c89745"]}, base])
    assert [entry["match"] for entry in left.value["spec"]["logs"]] == [ECC["match"]]


def test_windows_can_name_it_and_explain_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    mute = "  paging: {mute: [{name: nights, timezone: UTC, times: [22:00-07:00], rules: [mlx5-link-down-c89745]}]}"
    path.write_text(f"{HEAD}    - {{match: 'mlx5_[0-9]+: link down', page: warning}}\n{mute}\n")
    said = explain_rules(load_policy(path))
    assert "mlx5-link-down-c89745 (a line of a log that matches mlx5_[0-9]+: link down): a warning page" in said
