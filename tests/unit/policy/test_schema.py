"""The models: words of the file are aliases, defaults are those of the shipped default, the JSON schema is current."""

from __future__ import annotations

import importlib.resources
import json
from typing import get_args

import pytest
import yaml
from pydantic import ValidationError
from yamlcore import CoreLoader

from sentinel.detectors.hang import HangSettings
from sentinel.detectors.hold import Hold
from sentinel.detectors.registry import KINDS
from sentinel.detectors.spike import SpikeSettings
from sentinel.model import findings
from sentinel.model.price import Price
from sentinel.policy.quantities import Rate, RecoveredWhen
from sentinel.policy.schema import Budget, Detectors, FindingKind, Labels, PolicySpec, Probation, Severity
from sentinel.policy.schema_problems import validate_policy
from sentinel.policy.schema_rungs import Rung
from sentinel.policy_files.loading import load_policy, shipped_policies, shipped_policy_path
from sentinel.policy_files.schema_json import policy_json_schema, policy_json_schema_text
from tests.unit.policy.policies_in_words import policy_with


def test_defaults_are_values_the_engine_counts_with():
    written_out = Detectors.model_validate({"spike": {"window": "200 steps", "level": "20 steps", "z": 8}})
    assert written_out.spike == SpikeSettings() == Detectors().spike
    hang = Detectors().hang
    assert hang == HangSettings()
    assert (hang.after_step_times, hang.floor_s, hang.phases["compile"]) == (3.0, 30.0, 1200.0)
    assert Budget().restarts == Rate(20, 3600.0)
    assert Budget().backoff == (5.0, 300.0)
    assert Probation().recovered_when == RecoveredWhen("loss", 0.02)
    rule = policy_with().spec.rules[0]
    assert (rule.for_, rule.keep_firing_for, rule.labels.severity) == (Hold(), Hold(), "warning")


def test_the_shipped_default_writes_the_models_own_defaults_out():
    spec = load_policy(shipped_policy_path("default")).spec
    plain = PolicySpec(rules=())
    assert (spec.detectors, spec.budget, spec.probation, spec.paging) == (
        plain.detectors, plain.budget, plain.probation, plain.paging,
    )  # fmt: skip


SWITCHES = [("off", False), (False, False), ("on", True), (True, True), ({"enabled": False}, False)]


@pytest.mark.parametrize(("word", "enabled"), SWITCHES)
def test_a_detector_is_switched_by_one_word(word, enabled):
    assert Detectors.model_validate({"spike": word}).spike.enabled is enabled


def test_a_phase_left_out_keeps_its_default():
    phases = Detectors.model_validate({"hang": {"phases": {"compile": "40m"}}}).hang.phases
    assert (phases["compile"], phases["init"]) == (2400.0, 600.0)


def test_labels_are_free_beside_severity():
    labels = Labels.model_validate({"severity": "critical", "team": "pretraining"})
    assert labels.model_extra == {"team": "pretraining"}


def test_the_language_knows_exactly_the_kinds_and_severities_of_the_model():
    """A rule on an expression says `expr`, a pattern over logs says itself what follows, and of a scheduler's trouble and of
    ranks out of sight nothing follows but waiting; a node that its check calls sick is left out, whatever the rules; where
    sentinel itself cannot act a person is called; nothing else makes these kinds."""
    assert set(get_args(FindingKind)) == {str(kind) for kind in KINDS} - {
        "expression", "log_match", "engine_trouble", "unseen", "node_sick", "cannot_act", "unread",
    }  # fmt: skip
    assert get_args(Severity) == get_args(findings.Severity)


def test_a_loss_scale_that_the_trainer_could_not_hold_is_refused_at_the_desk():
    assert Rung.model_validate({"resume": {}, "loss_scale": 2.0**127}).loss_scale == 2.0**127
    with pytest.raises(ValidationError, match="loss_scale"):
        Rung.model_validate({"resume": {}, "loss_scale": 1e39})


def test_a_policy_is_frozen():
    policy = policy_with()
    with pytest.raises(ValidationError):
        policy.spec.mode = "observe"


def test_schema_json_is_current():
    shipped = importlib.resources.files("policies").joinpath("schema.json").read_text(encoding="utf-8")
    assert shipped == policy_json_schema_text(), "run: sentinel policy schema > policies/schema.json"


def test_every_default_in_the_schema_is_written_as_in_a_file():
    """A number where a quantity belongs would complete to something the loader refuses."""

    def walk(node):
        if isinstance(node, dict):
            if node.get("type") == "string" and "default" in node:
                assert isinstance(node["default"], str), node
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(policy_json_schema())


@pytest.mark.parametrize("name", shipped_policies())
def test_the_first_line_points_editors_to_the_schema(name):
    text = shipped_policy_path(name).read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=./schema.json\n")
    assert json.dumps(yaml.load(text, Loader=CoreLoader))  # plain YAML 1.2 for any other reader too


def test_a_list_whose_only_item_is_wrong_is_one_problem() -> None:
    plain = {
        "apiVersion": "sentinel/v1", "kind": "RemediationPolicy", "metadata": {"name": "x"},
        "spec": {"playbooks": {"numeric": [{"rollback": {"nonsense": 3}}]}, "rules": []},
    }  # fmt: skip
    paths = [problem.path for problem in validate_policy(plain)[1]]
    assert "spec.playbooks.numeric[0].rollback.nonsense" in paths
    assert "spec.playbooks.numeric" not in paths
    plain["spec"]["playbooks"]["numeric"] = []  # type: ignore[index]
    assert "spec.playbooks.numeric" in [problem.path for problem in validate_policy(plain)[1]]


def test_the_price_of_a_gpu_hour_stands_in_one_place_or_is_the_same_in_both():
    def spec(run, paging):
        return PolicySpec.model_validate({"rules": [], "run": run, "paging": paging})

    assert spec({"gpu_hour_price": "2.5 USD"}, {}).price == Price(2.5, "USD")
    assert spec({"gpu_hour_price": "2.5 USD"}, {"gpu_hour_cost": 2.5}).price == Price(2.5, "USD")
    assert spec({}, {"gpu_hour_cost": 2.5}).price == Price(2.5, "")
    assert spec({}, {}).price is None
    with pytest.raises(ValidationError, match="two prices of an hour"):
        spec({"gpu_hour_price": "2.5 USD"}, {"gpu_hour_cost": 3.0})
