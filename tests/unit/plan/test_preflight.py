"""The preflight: whether nodes fit together, each check with its reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sentinel.model.node_checks import NodeReply
from sentinel.plan.preflight import Asked, NodeFacts, judge_preflight, read_facts
from sentinel.plan.preflight_check import PreflightCheck

GOOD = NodeFacts(1000.5, {"python": "3.11.7", "torch": "2.5.1"}, 500_000_000, ())
ASKED = Asked(1000.0, 1001.0, 100_000_000)


def judge(*answers: NodeFacts | str, asked: Asked = ASKED) -> dict[str, PreflightCheck]:
    found = judge_preflight({f"n{number}": answer for number, answer in enumerate(answers, 1)}, asked)
    return {check.name: check for check in found}


def test_nodes_that_fit_together() -> None:
    found = judge(GOOD, GOOD, GOOD)
    assert {name: check.verdict for name, check in found.items()} == dict.fromkeys(
        ("answers", "versions", "clocks", "disk", "ports"), "good"
    )
    assert found["versions"].reason == "python 3.11.7, torch 2.5.1"
    assert found["disk"].reason == "2 checkpoints take 200.0 MB; at least 500.0 MB are free"


@pytest.mark.parametrize(
    ("name", "odd", "verdict", "reason"),
    [
        ("versions", replace(GOOD, versions={"python": "3.11.7", "torch": "2.4.0"}), "bad", "torch 2.5.1 on n1, 2.4.0 on n2"),
        ("versions", replace(GOOD, versions={"python": "3.11.7"}), "bad", "torch 2.5.1 on n1, none on n2"),
        ("clocks", replace(GOOD, time_s=990.0), "bad", "n2 is off by 10 s or more"),
        ("clocks", replace(GOOD, time_s=1031.0), "bad", "n2 is off by 30 s or more"),
        ("clocks", replace(GOOD, time_s=1005.9), "good", "none is off by more than 6 s"),
        ("disk", replace(GOOD, free_bytes=199_999_999), "bad", "2 checkpoints take 200.0 MB; n2 has 200.0 MB free"),
        ("disk", replace(GOOD, free_bytes=None), "unknown", "n2 cannot look at the path"),
        ("ports", replace(GOOD, taken=(29500, 29501)), "bad", "taken on n2: 29500, 29501"),
        ("answers", "ssh: no route", "unknown", "n2: ssh: no route"),
    ],
)
def test_one_node_that_does_not_fit(name: str, odd: NodeFacts | str, verdict: str, reason: str) -> None:
    found = judge(GOOD, odd)
    assert (found[name].verdict, reason in found[name].reason) == (verdict, True), found[name]


def test_what_nobody_knows_is_unknown() -> None:
    assert judge(GOOD, asked=Asked(1000.0, 1001.0))["disk"].verdict == "unknown"
    assert {check.verdict for check in judge("away").values()} == {"unknown"}
    assert {check.verdict for check in judge().values()} == {"unknown"}


FACTS = {"v": 1, "host": "n1", "time_s": 1.5, "versions": {"python": "3"}, "free_bytes": 7, "taken": [1]}


def test_facts_are_read_from_what_a_node_printed() -> None:
    assert read_facts(NodeReply(0, json.dumps(FACTS))) == NodeFacts(1.5, {"python": "3"}, 7, (1,))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "did not answer"),
        (NodeReply(None, "", "it did not answer within 60 s"), "within 60 s"),
        (NodeReply(1, "", "No module named sentinel"), "No module named sentinel"),
        (NodeReply(0, "hello"), "cannot be read: 'hello'"),
        (NodeReply(0, "{}"), "cannot be read"),
        (NodeReply(0, "[" * 9000), "cannot be read"),
        (NodeReply(0, json.dumps({**FACTS, "time_s": float("nan")})), "tells no time"),
        (NodeReply(0, json.dumps({**FACTS, "versions": []})), "cannot be read"),
    ],
)
def test_what_is_no_answer_has_its_reason(reply: NodeReply | None, why: str) -> None:
    found = read_facts(reply)
    assert isinstance(found, str)
    assert why in found
