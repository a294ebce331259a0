"""A small valid policy as a file and as data, and a way to change one place of it. Quantities are text, as in a file."""

from __future__ import annotations

import copy
from typing import Any

from sentinel.channels import registry as _registry  # noqa: F401 - the channels that a policy may name
from sentinel.detectors.registry import DETECTORS
from sentinel.errors import Problem
from sentinel.policy.checks import check_policy
from sentinel.policy.schema import Policy
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy_files.yaml_positions import read_yaml

# A file a mistake can be planted in.
GOOD = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: x}
spec:
  detectors:
    spike: {z: 8}
  rules:
  - alert: Spike
    on: spike
    for: 2 steps
    labels: {severity: warning}
    playbook: numeric
  playbooks:
    numeric:
    - rollback: {before_onset: 100 steps}
    - page: {severity: critical}
      then: stop_now
"""

RULES: list[dict[str, Any]] = [
    {"alert": "Spike", "on": "spike", "playbook": "numeric"},
    {"alert": "NonFinite", "on": "non_finite", "playbook": "numeric"},
    {"alert": "Hang", "on": "hang", "playbook": "restart"},
    {"alert": "BrokenJob", "on": "broken_job", "playbook": "call"},
    {"alert": "Crash", "on": "crash", "playbook": "restart"},
]
RULED = {rule["on"] for rule in RULES}
# The checker would ask for a rule on what they find.
UNRULED = [
    row.name for row in DETECTORS if row.settings and any(one.asks_for_rule and one.kind not in RULED for one in row.finds)
]
SMALL: dict[str, Any] = {
    "apiVersion": "sentinel/v1",
    "kind": "RemediationPolicy",
    "metadata": {"name": "small"},
    "spec": {
        "detectors": dict.fromkeys(UNRULED, "off"),
        "rules": RULES,
        "playbooks": {
            "numeric": [
                {"rollback": {"before_onset": "100 steps"}, "skip": {"from": "onset - 20 steps", "to": "detected + 200 steps"}},
                {"page": {"severity": "critical"}, "then": "stop_now"},
            ],
            "restart": [{"resume": {"from": "newest"}}, {"page": {}, "then": "stop_now"}],
            "call": [{"page": {}, "then": "stop_now"}],
        },
    },
}


def data_with(**spec: Any) -> dict[str, Any]:
    """The small policy's data with these parts of its spec replaced."""
    data = copy.deepcopy(SMALL)
    detectors = data["spec"]["detectors"] | spec.pop("detectors", {})
    data["spec"] |= spec | {"detectors": detectors}
    return data


def policy_with(**spec: Any) -> Policy:
    return Policy.model_validate(data_with(**spec))


def numeric(*rungs: dict[str, Any]) -> Policy:
    """The small policy with these rungs as its numeric playbook, before the page."""
    data = copy.deepcopy(SMALL)
    data["spec"]["playbooks"]["numeric"] = [*rungs, {"page": {}, "then": "stop_now"}]
    return Policy.model_validate(data)


def said(policy: Policy, capabilities: set[str] | None = None) -> list[tuple[str, str, str]]:
    """(severity, path, message) of every problem."""
    problems: tuple[Problem, ...] = check_policy(policy, capabilities)
    assert all(problem.remedy for problem in problems), "every problem comes with a remedy"
    return [(problem.severity, problem.path, problem.message) for problem in problems]


def located(text: str) -> list[Problem]:
    """What is wrong with the file of this text, each problem with its line and column."""
    read = read_yaml(text)
    return [read.locate(problem) for problem in (*read.problems, *validate_policy(read.value)[1])]
