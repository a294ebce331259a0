"""Deadlines and warnings in the simulator: the run goes on as the same run, wherever its supervisor is killed meanwhile."""

from __future__ import annotations

from functools import cache

import pytest

from sentinel.policy.schema import Policy
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import SHORT, policy_named, simulate

LEAVE = ("kill@step=50", "leave@time=70:for=60")


@cache
def hurried() -> Policy:
    """The demo's, with half a minute to leave in."""
    policy = policy_named("demo")
    run = policy.spec.run.model_copy(update={"deadline_margin_s": 30.0})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"run": run})})


def with_deadline(*faults: str) -> SimulationResult:
    return run_scenario(Scenario(seed=1, shape=SHORT, faults=tuple(parse_fault(text) for text in faults)), hurried())


def starts(result: SimulationResult) -> list[int]:
    return [attempt.resumed_step for attempt in result.state.attempts]


def test_a_warning_costs_no_step_and_the_incident_goes_on() -> None:
    result = simulate(*LEAVE)
    assert (result.outcome, result.broken) == ("finished", "")
    assert [str(incident.state) for incident in result.state.incidents] == ["recovered"]
    stopped = [attempt for attempt in result.state.attempts if attempt.outcome == "stopped"]
    assert [attempt.last_step for attempt in stopped] == starts(result)[2:]
    assert not result.pages


def test_a_deadline_stops_the_run_before_the_machine_goes() -> None:
    result = with_deadline("deadline@time=80:for=30", "deadline@time=140:for=30")
    assert (result.outcome, result.broken) == ("finished", "")
    ends = [attempt for attempt in result.state.attempts if attempt.outcome == "stopped"]
    assert len(ends) == 2
    assert all(attempt.last_step == resumed for attempt, resumed in zip(ends, starts(result)[1:], strict=True))


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_supervisor_that_dies_while_it_leaves_is_followed_by_one_that_goes_on(side: str) -> None:
    appends = simulate(*LEAVE).appends
    for number in range(8, appends, 5):
        result = simulate(*LEAVE, f"supervisor_kill@journal={number}:side={side}")
        assert not result.broken, result.reproduce
        assert result.outcome in ("finished", "suspended"), result.reproduce
