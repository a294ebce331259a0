"""A policy is applied in the middle of a disaster: open incidents go on under it, and no death of the supervisor loses it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from sentinel.model import facts as f
from sentinel.model.incidents import Outcome
from sentinel.policy.schema import Policy
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import EVERY_SIXTH, SHORT, policy_named
from tests.sim.test_crash_points import points

POISONED = "bad_data@sample=1600-1900:heals=never"  # no patience helps: the ladder is climbed from about step 100 on
CALL = [{"page": {"severity": "critical"}, "then": "keep_training"}]


def changed(name: str, **spec: Any) -> Policy:
    """The policy `demo` under another name, with other sections of its spec."""
    policy = policy_named("demo")
    return policy.model_copy(
        update={
            "metadata": policy.metadata.model_copy(update={"name": name}),
            "spec": policy.spec.model_copy(update=spec),
        }
    )


@cache
def others() -> Mapping[str, Policy]:
    spec = policy_named("demo").spec
    numeric = spec.playbooks["numeric"]
    without_rule = tuple(rule for rule in spec.rules if rule.playbook != "numeric")
    return {
        "same": changed("same", budget=spec.budget.model_copy(update={"without_progress": 5})),
        "shorter": changed("shorter", playbooks={**spec.playbooks, "numeric": (numeric[1], numeric[-1])}),
        "without_wait": changed("without_wait", playbooks={**spec.playbooks, "numeric": numeric[1:]}),
        "silent": changed("silent", rules=without_rule),
        "observe": changed("observe", mode="observe"),
    }


def simulate(*faults: str, **more: Any) -> SimulationResult:
    scenario = Scenario(seed=1, shape=SHORT, faults=tuple(parse_fault(text) for text in faults))
    return run_scenario(scenario, policy_named("demo"), others=others(), **more)


def facts(result: SimulationResult, kind: type[Any]) -> list[Any]:
    return [entry.fact for entry in result.entries if isinstance(entry.fact, kind)]


def at_s(result: SimulationResult, kind: type[Any]) -> float:
    """Seconds after the beginning."""
    first = result.entries[0].at_s
    return next(entry.at_s - first for entry in result.entries if isinstance(entry.fact, kind))


@cache
def opened_s() -> float:
    return at_s(simulate(POISONED), f.IncidentOpened)


def apply(policy: str, later_s: float) -> str:
    return f"apply@time={opened_s() + later_s:.1f}:policy={policy}"


@pytest.mark.parametrize("policy", ["same", "shorter", "without_wait", "silent", "observe"])
@pytest.mark.parametrize("later_s", [-20.0, 0.6, 2.2, 3.0, 6.0, 40.0])
def test_a_policy_applied_before_in_and_after_an_incident_keeps_every_invariant(policy: str, later_s: float) -> None:
    result = simulate(POISONED, apply(policy, later_s))
    assert result.ok, result.broken
    assert result.state.policy_name == policy
    applied = facts(result, f.PolicyApplied)
    assert [(fact.by, fact.before, fact.name) for fact in applied] == [("a person", "demo", policy)]
    sessions = facts(result, f.SupervisorTookOver)
    assert [fact.policy_name for fact in sessions] == ["demo", policy]


def test_an_incident_keeps_its_place_where_the_new_playbook_has_its_rung() -> None:
    result = simulate(POISONED, apply("same", 15.0))
    assert not facts(result, f.PlaybookChanged)
    assert result.outcome == simulate(POISONED).outcome


def test_an_incident_whose_rung_is_gone_begins_the_new_playbook() -> None:
    """It waits for healing, and the new playbook has no such rung."""
    result = simulate(POISONED, apply("without_wait", 0.6))
    assert result.ok, result.broken
    (laid,) = facts(result, f.PlaybookChanged)
    assert (laid.playbook, laid.rung) == ("numeric", -1)
    tries = result.state.incident(laid.incident).tries
    assert tries[0].outcome is Outcome.PASSED_OVER, "the patience of the policy before is over"
    assert tries[1].remedy.rung == 0


def test_an_incident_that_no_rule_takes_any_more_ends_no_run_that_trains() -> None:
    result = simulate(POISONED, apply("silent", 0.6))
    assert result.ok, result.broken
    (incident,) = result.state.incidents
    assert incident.verdict == "no rule of policy silent has a playbook for it: nothing more is tried, and training goes on"
    assert (result.outcome, len(result.state.attempts), result.pages) == ("finished", 1, ())


def test_what_a_new_policy_finds_in_steps_from_before_it_is_no_reason_to_act_once_it_is_over() -> None:
    """A spike that the policy before did not mind is found when the stream is read again under one that does."""
    blind = changed("blind", rules=())
    faults = tuple(map(parse_fault, ("spike@step=80:length=4,height=3", "apply@time=60:policy=demo")))
    result = run_scenario(Scenario(seed=1, shape=SHORT, faults=faults), blind, others={"demo": policy_named("demo")})
    assert result.ok, result.broken
    assert result.outcome == "finished"
    assert not result.state.incidents
    reasons = [fact.reason for fact in facts(result, f.FindingRecorded) if fact.became is None]
    assert any("from which on this policy decides; it is over" in reason for reason in reasons), reasons


def test_what_still_holds_is_acted_upon() -> None:
    blind = changed("blind", rules=())
    faults = tuple(map(parse_fault, ("bad_data@sample=1600-1900:heals=never", "apply@time=60:policy=demo")))
    result = run_scenario(Scenario(seed=1, shape=SHORT, faults=faults), blind, others={"demo": policy_named("demo")})
    assert result.ok, result.broken
    assert result.state.incidents


@EVERY_SIXTH
@pytest.mark.parametrize(("policy", "later_s"), [("same", 15.0), ("without_wait", 0.6)])
def test_killed_at_any_point_around_it_the_supervisor_goes_on_by_it(policy: str, later_s: float, first: int) -> None:
    faults = (POISONED, apply(policy, later_s))
    undisturbed = simulate(*faults)
    assert undisturbed.ok, undisturbed.broken
    for point in list(points(undisturbed))[first::6]:
        disturbed = simulate(*faults, point)
        assert disturbed.ok, f"{point}: {disturbed.broken}"
        assert disturbed.outcome == undisturbed.outcome, point
        assert disturbed.state.policy_name == policy, point
        assert len(facts(disturbed, f.PolicyApplied)) == 1, point


def test_one_that_cannot_be_read_changes_nothing() -> None:
    result = simulate("kill@step=110:rank=1", "apply@time=30:policy=nowhere")
    assert result.ok, result.broken
    (answer,) = facts(result, f.RequestAnswered)
    assert not answer.granted
    assert answer.answer == "nowhere: no such file\nThe policy in force stays: demo"
    assert not facts(result, f.PolicyApplied)
    assert len(facts(result, f.SupervisorTookOver)) == 1
