"""Pages in simulated runs: routes that refuse or hang, people who answer or do not, supervisors killed anywhere; and engines that
page wrongly on purpose, each caught by its invariant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.engine import Engine, paging
from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.actions import SendPage
from sentinel.model.incidents import IncidentState
from sentinel.model.paging import IncidentPage
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import EVERY_SIXTH, SHORT, kinds_and_states, policy_named, simulate

HOPELESS = "crash@step=100:always"
REFUSED = ("route@time=0:name=terminal,does=refuses", "route@time=0:name=first,does=refuses")
HOUR = 3600.0


def told(result: SimulationResult, incident: int = 1) -> list[tuple[str, str]]:
    """Stage and route of everything that was decided for the incident, in order."""
    decided = [entry.fact.action for entry in result.entries if isinstance(entry.fact, f.ActionDecided)]
    return [(x.stage, x.route) for x in decided if isinstance(x, SendPage) and x.incident == incident]


def page_of(result: SimulationResult, incident: int = 1) -> IncidentPage:
    page = result.state.incident(incident).page
    assert page is not None
    return page


def called_after_s(result: SimulationResult) -> dict[str, float]:
    """By route: how long after the page was last raised the call got through."""
    raised_s, found = page_of(result).raised_s, {}
    for entry in result.entries:
        if isinstance(entry.fact, f.ActionConfirmed) and entry.fact.key.startswith("page/1/") and entry.at_s > raised_s:
            _, _, _, stage, route = entry.fact.key.split("/")
            if stage == "trigger":
                found.setdefault(route, entry.at_s - raised_s)
    return found


def paged(*faults: str, **more: Any) -> SimulationResult:
    result = simulate(*faults, policy="paging", **more)
    assert result.ok, result.broken
    return result


def test_a_warning_goes_where_warnings_go_and_the_end_of_the_ladder_everywhere() -> None:
    result = paged(HOPELESS)
    assert result.outcome == "failed"
    assert told(result)[0] == ("trigger", "terminal"), "its first rung tells a person, mildly"
    assert {route for stage, route in told(result)[1:] if stage == "trigger"} == {"terminal", "first", "second", "third"}
    assert len(result.pages) == 1, "one incident is one page"


def test_a_failed_run_keeps_sentinel_until_every_route_was_tried() -> None:
    result = paged(HOPELESS)
    assert called_after_s(result)["second"] == pytest.approx(120, abs=2)
    assert called_after_s(result)["third"] == pytest.approx(300, abs=2)


def test_somebody_who_answers_in_time_spares_the_others() -> None:
    undisturbed = paged(HOPELESS)
    seen_s = page_of(undisturbed).raised_s - undisturbed.entries[0].at_s + 30
    result = paged(HOPELESS, f"ask@time={seen_s:.0f}:what=ack,to=1")
    assert page_of(result).acknowledged_by == "a person"
    assert {route for _, route in told(result)} == {"terminal", "first"}
    assert {("acknowledge", "terminal"), ("acknowledge", "first")} <= set(told(result))


def test_routes_that_refuse_bring_the_next_in_line_forward() -> None:
    result = paged(HOPELESS, *REFUSED)
    assert set(called_after_s(result)) == {"second", "third"}
    assert called_after_s(result)["second"] < 5.0


def test_routes_that_hang_are_passed_over_at_the_deadline_and_delay_nothing_else() -> None:
    hang = [text.replace("refuses", "hangs") for text in REFUSED]
    undisturbed, result = paged(HOPELESS), paged(HOPELESS, *hang)
    assert called_after_s(result)["second"] == pytest.approx(24, abs=3)
    assert kinds_and_states(result) == kinds_and_states(undisturbed)


def test_a_route_that_comes_back_gets_the_page_all_the_same() -> None:
    result = paged("nan_state@step=39:always", "route@time=0:name=first,does=hangs,for=120", until_s=HOUR)
    assert result.state.held
    assert page_of(result).on("first").delivered == page_of(result).number


def test_a_held_run_is_called_for_again_and_again_until_somebody_resumes_it() -> None:
    result = paged("nan_state@step=39:always", until_s=HOUR)
    calls = [route for stage, route in told(result) if stage == "trigger"]
    assert calls.count("first") >= 9
    again = paged("nan_state@step=39:always", "ask@time=900:what=resume", until_s=HOUR)
    assert "resolve" in [stage for stage, _ in told(again)]
    assert "the run goes on" in page_of(again).resolved


def test_a_repaired_run_says_so_to_whoever_was_called_and_as_a_message_to_the_rest() -> None:
    result = paged("kill@step=60:rank=0", "bad_data@sample=1600-1900:heals=slow", "ask@time=60:what=note")
    assert result.outcome == "finished"
    assert [i.state for i in result.state.incidents] == [IncidentState.RECOVERED] * len(result.state.incidents)
    assert told(result)[-1] == ("resolve", "terminal")
    quiet = simulate("kill@step=60:rank=0")
    assert not told(quiet), "nobody was called, and nobody asked for messages"


def test_with_every_route_refused_the_run_ends_and_every_route_was_tried() -> None:
    names = ("terminal", "first", "second", "third")
    result = paged(HOPELESS, *(f"route@time=0:name={name},does=refuses" for name in names))
    assert (result.outcome, result.pages) == ("failed", ())
    assert {route for stage, route in told(result) if stage == "trigger"} == set(names)


KILLED: dict[str, tuple[tuple[str, ...], float]] = {
    "a hopeless run that somebody has seen": ((HOPELESS, "ask@time=150:what=ack,to=1"), HOUR),
    "routes that fail": ((HOPELESS, REFUSED[0], "route@time=0:name=first,does=hangs"), HOUR),
    "a repair that is approved by nobody": (("bad_data@sample=1600-1900:heals=slow",), HOUR),
    "a run held and resumed": (("nan_state@step=39", "nan_state@step=38:attempt=2", "nan_state@step=38:attempt=3",
                               "ask@time=400:what=resume"), HOUR),
}  # fmt: skip


@EVERY_SIXTH
@pytest.mark.parametrize("name", KILLED)
def test_killed_at_any_point_the_supervisor_pages_as_it_would_have(name: str, first: int) -> None:
    faults, until_s = KILLED[name]
    undisturbed = paged(*faults, until_s=until_s)
    assert page_of(undisturbed)
    places = [("journal", at, "after") for at in range(1, undisturbed.appends + 1)]
    places += [("effect", at, side) for at in range(1, undisturbed.effects + 1) for side in ("before", "after")]
    for place, at, side in places[first::6]:
        killed = simulate(*faults, f"supervisor_kill@{place}={at}:for=1,side={side}", policy="paging", until_s=until_s)
        assert killed.ok, f"{place} {at} {side}: {killed.broken}"


# Engines that page wrongly.


def broken_by(*faults: str, engine: Any = Engine) -> str:
    scenario = Scenario(1, SHORT, tuple(parse_fault(text) for text in faults))
    return run_scenario(scenario, policy_named("paging"), HOUR, engine, False).broken.partition(":")[0]


def test_one_that_calls_people_who_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Engine):
        def handle(self, now_s: float, event: Any) -> tuple[f.Fact, ...]:
            self.state = replace(self.state, incidents=tuple(self._unanswered(i) for i in self.state.incidents))
            return super().handle(now_s, event)

        def _unanswered(self, incident: Any) -> Any:
            page = incident.page
            return incident if page is None else replace(incident, page=replace(page, acknowledged_by=""))

    answered = ("nan_state@step=39:always", "ask@time=200:what=ack,to=1")
    assert broken_by(*answered) == ""
    assert broken_by(*answered, engine=Deaf) == "nobody is called for what was answered"


def test_one_that_repeats_itself_at_every_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = policy_named("paging").spec.paging.model_copy(update={"repeat_every_s": 1.0})
    on_tick = paging.on_tick

    def hastily(decision: Decision) -> None:
        spec = decision.policy.spec.model_copy(update={"paging": hasty})
        known, decision.policy = decision.policy, decision.policy.model_copy(update={"spec": spec})
        on_tick(decision)
        decision.policy = known

    monkeypatch.setattr("sentinel.engine.paging.on_tick", hastily)
    assert broken_by("nan_state@step=39:always") == "a page is repeated no sooner than asked"


def test_one_that_waits_for_a_route_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.paging._could_not", lambda *_: False)
    assert broken_by(HOPELESS, *REFUSED) == "recovered, or paged before the deadline"


def test_one_that_resolves_what_nobody_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_all(known: IncidentPage, spec: Any, now_s: float, repeats: bool) -> Any:
        if not known.is_open:
            return [(known.on(route.name), "resolve") for route in spec.routes if not known.on(route.name).under_way]
        return due(known, spec, now_s, repeats)

    due = paging._due
    monkeypatch.setattr("sentinel.engine.paging._due", to_all)
    assert broken_by("kill@step=60:rank=0") == "only who was called is told the rest"


def test_one_that_makes_two_pages_of_one_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_anew(decision: Decision, wanted: f.PageRaised) -> None:
        decision.record(replace(wanted, anew=False))
        paging.send(decision, wanted.incident)

    monkeypatch.setattr("sentinel.engine.paging.raise_page", always_anew)
    assert broken_by(HOPELESS) == "one incident is one page"
