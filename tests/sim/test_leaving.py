"""Deadlines and warnings in the simulator: the run goes on as the same run, wherever its supervisor is killed meanwhile."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from sentinel.policy.schema import Policy
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario, draw_scenario
from tests.sim.kit import SHORT, policy_named, simulate

LONG = replace(SHORT, steps=300, batch=16, step_s=0.5, checkpoint_every=25)
IN_PROBATION = ("bad_data@sample=1600-2000:heals=never", "leave@time=110:for=60")
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


def test_a_stop_in_probation_throws_nothing_away_that_has_held() -> None:
    result = simulate(*IN_PROBATION, shape=LONG)
    assert (result.outcome, result.broken) == ("finished", "")
    (incident,) = result.state.incidents
    assert str(incident.state) == "recovered"
    stopped = next(attempt for attempt in reversed(result.state.attempts) if attempt.stopped_by)
    assert stopped.last_step > incident.break_step
    assert starts(result)[-1] == stopped.last_step


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 200, 20))])
def test_whatever_befalls_a_run_it_may_be_warned_at_any_time(first: int) -> None:
    """Not every such run finishes: where the weights broke in the very step at which the first checkpoint is asked for, that is
    the only one, and damaged, and a start from scratch is for a person to choose."""
    for seed in range(first, first + 20):
        dice, drawn = random.Random(f"leaves {seed}"), draw_scenario(seed)
        texts = [f"leave@time={dice.randrange(20, 260)}:for={dice.choice((5, 60))}" for _ in range(3)]
        scenario = replace(drawn, must_finish=False, faults=(*drawn.faults, *(parse_fault(text) for text in texts)))
        result = run_scenario(scenario, policy_named("demo"))
        assert not result.broken, f"{result.broken}: {scenario}"


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
