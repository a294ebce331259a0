"""Quiet hours in simulated runs: windows that begin and end inside an incident, supervisors killed at their edges, and engines
that do it wrongly on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sentinel.engine import holding_back, paging
from sentinel.model import facts as f
from sentinel.model.actions import SendPage
from sentinel.policy.schema import Policy
from sentinel.policy.schema_mute import Inhibit, Mute
from sentinel.policy.timezones import wall_at
from sentinel.sim.faults import parse_fault
from sentinel.sim.machine import EPOCH_S
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import SHORT, policy_named
from tests.sim.test_pages import HOPELESS, HOUR, page_of, told

KILL = "kill@step=60:rank=0"  # a warning to the terminal, and it goes on by itself
DOOM = "nan_state@step=39:always"  # in the end the run is held, and a critical page goes out


def clock(after_s: float) -> str:
    minute = wall_at("UTC", EPOCH_S + after_s).minute % 1440
    return f"{minute // 60:02d}:{minute % 60:02d}"


def quiet(begin_s: float, end_s: float, severities: Sequence[str] = ("info", "warning")) -> Policy:
    times = [f"{clock(begin_s)}-{clock(end_s)}"]
    mute = Mute.model_validate({"name": "nights", "timezone": "UTC", "times": times, "severities": list(severities)})
    return with_paging(mute=(mute,))


def with_paging(**more: Any) -> Policy:
    policy = policy_named("paging")
    spec = policy.spec.model_copy(update={"paging": policy.spec.paging.model_copy(update=more)})
    return policy.model_copy(update={"spec": spec})


def run(policy: Policy, *faults: str, until_s: float = 2 * HOUR) -> SimulationResult:
    return run_scenario(Scenario(1, SHORT, tuple(parse_fault(text) for text in faults)), policy, until_s)


def calls_s(result: SimulationResult) -> list[float]:
    """When people were called, from the run's begin on."""
    decided = ((entry.at_s, entry.fact.action) for entry in result.entries if isinstance(entry.fact, f.ActionDecided))
    return [at_s - EPOCH_S for at_s, action in decided if isinstance(action, SendPage) and action.stage == "trigger"]


def test_what_a_window_swallows_whole_pages_nobody() -> None:
    result = run(quiet(-HOUR, 3 * HOUR), KILL)
    assert (result.ok, result.outcome) == (True, "finished"), result.broken
    assert page_of(result).resolved
    assert [stage for stage, _ in told(result)] == [], "neither the call nor its end"


def test_a_window_that_ends_inside_an_incident_pages_then_and_once() -> None:
    result = run(quiet(-HOUR, 30 * 60, ("info", "warning", "critical")), DOOM, until_s=33 * 60)
    assert result.ok, result.broken
    end_s = 30 * 60 - EPOCH_S % 60
    assert result.state.held
    assert min(calls_s(result)) == pytest.approx(end_s, abs=2)
    first = [route for stage, route in told(result) if stage == "trigger"]
    assert sorted(first) == ["first", "second", "terminal"], "the third waits for five minutes more"


def test_a_window_that_begins_inside_an_incident_holds_repetitions_and_the_next_in_line() -> None:
    policy = quiet(8 * 60, 60 * 60, ("warning", "critical"))
    result = run(policy, DOOM, until_s=70 * 60)
    assert result.ok, result.broken
    begin_s, end_s = (minutes * 60 - EPOCH_S % 60 for minutes in (8, 60))
    assert not [at for at in calls_s(result) if begin_s <= at < end_s]
    assert [at for at in calls_s(result) if at >= end_s]


def test_a_failed_run_is_told_of_when_the_window_ends() -> None:
    result = run(quiet(-HOUR, HOUR, ("info", "warning", "critical")), HOPELESS)
    assert (result.ok, result.outcome) == (True, "failed"), result.broken
    assert min(calls_s(result)) == pytest.approx(HOUR - EPOCH_S % 60, abs=2)
    assert page_of(result).is_delivered


def test_a_critical_page_rings_in_the_night_by_default() -> None:
    result = run(quiet(-HOUR, 3 * HOUR), HOPELESS)
    assert (result.ok, result.outcome) == (True, "failed"), result.broken
    assert {route for stage, route in told(result) if stage == "trigger"} >= {"terminal", "first"}


@pytest.mark.parametrize("edge", ["begin", "end"])
def test_killed_at_an_edge_of_the_window_it_pages_as_it_would_have(edge: str) -> None:
    begin_s, end_s = 10 * 60.0, 40 * 60.0
    policy = quiet(begin_s, end_s, ("info", "warning", "critical"))
    at_s = (begin_s if edge == "begin" else end_s) - EPOCH_S % 60
    undisturbed = run(policy, DOOM, until_s=50 * 60)
    for kill_s in (at_s - 0.5, at_s, at_s + 0.5):
        killed = run(policy, DOOM, f"supervisor_kill@time={kill_s:g}:for=1", until_s=50 * 60)
        assert killed.ok, f"{edge} {kill_s}: {killed.broken}"
        assert len(told(killed)) == len(told(undisturbed)), kill_s
    away = run(policy, DOOM, f"supervisor_kill@time={at_s - 30:g}:for=60", until_s=50 * 60)
    assert away.ok, away.broken


def test_killed_at_any_point_of_a_run_that_fails_in_the_night_it_pages_in_the_morning() -> None:
    policy = quiet(-HOUR, HOUR, ("info", "warning", "critical"))
    undisturbed = run(policy, HOPELESS)
    assert undisturbed.ok, undisturbed.broken
    for at in range(1, undisturbed.appends + 1, 20):
        killed = run(policy, HOPELESS, f"supervisor_kill@journal={at}:for=1,side=after")
        assert killed.ok, f"journal {at}: {killed.broken}"
        assert page_of(killed).is_delivered


def test_an_incident_keeps_back_what_it_causes_and_lets_it_go() -> None:
    rule = Inhibit.model_validate({"name": "own", "while": ["non_finite"], "hold": ["crash"], "equal": []})
    result = run(with_paging(inhibit=(rule,)), KILL)
    assert result.ok, result.broken
    assert told(result)[0] == ("trigger", "terminal"), "no cause is open"


# Engines that do it wrongly.


def test_one_that_calls_people_in_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.paging.update_hold", lambda *_: None)
    broken = run(quiet(-HOUR, 3 * HOUR), KILL).broken
    assert broken.partition(":")[0] == "nobody is called while it is muted"


def test_one_that_forgets_what_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    update = holding_back.update_hold

    def once(decision: Any, number: int) -> None:
        page = decision.state.incident(number).page
        if page is None or page.hold is None:
            update(decision, number)

    monkeypatch.setattr(paging, "update_hold", once)
    broken = run(quiet(-HOUR, 30 * 60, ("info", "warning", "critical")), DOOM, until_s=HOUR).broken
    assert broken.partition(":")[0] in ("what waited is paged when it may be", "recovered, or paged before the deadline")


def test_one_that_leaves_before_the_window_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.core.is_owed", lambda *_: False)
    broken = run(quiet(-HOUR, HOUR, ("info", "warning", "critical")), HOPELESS).broken
    assert broken.partition(":")[0] in ("what waited is paged when it may be", "recovered, or paged before the deadline")
