"""Observe only: everything is decided and recorded as usual, and nothing in the world is changed."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.model import actions as a
from sentinel.model.attempts import Orphaned
from sentinel.model.incidents import IncidentState, Outcome
from tests.builders import Bench, build_policy

ACTS = (a.KillAttempt, a.Quarantine, a.WriteOverrides, a.RequestStop, a.SignalRanks, a.Capture)


def acts(bench: Bench) -> list[object]:
    return [x for kind in ACTS for x in bench.decided(kind)]


@pytest.fixture(params=["flag", "policy"])
def bench(request: pytest.FixtureRequest) -> Bench:
    found = Bench(observe_only=True) if request.param == "flag" else Bench(build_policy(mode="observe"))
    return found.launched()


def test_the_run_itself_is_launched(bench: Bench) -> None:
    assert len(bench.state.attempts) == 1


def test_what_would_have_been_done_is_on_record(bench: Bench) -> None:
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan)
    tried = bench.incident.tries[-1]
    assert (tried.outcome, tried.remedy.rollback_to_step) == (Outcome.OBSERVED, 50)
    assert bench.incident.state is IncidentState.OPEN
    assert not acts(bench)
    assert not bench.state.interventions_s


def test_a_crash_ends_the_run_with_its_reason(bench: Bench) -> None:
    bench.steps(1, 60).exits(signal=9)
    assert bench.state.ended == "failed"
    assert "nothing is to be relaunched" in bench.state.end_reason
    assert not acts(bench)


def test_a_hang_is_left_to_hang(bench: Bench) -> None:
    bench.steps(1, 60).beat("forward", 60).tick(400)
    assert bench.incident.kind == "hang"
    assert not acts(bench)


def test_a_spike_heals_or_goes_on_without_sentinel(bench: Bench) -> None:
    bench.steps(1, 70).steps(71, 90, loss=8.0)
    assert bench.incident.state is IncidentState.OPEN
    bench.steps(91, 110)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)
    assert not acts(bench)


def test_what_stays_broken_is_closed_with_a_page_and_the_next_incident_is_found(bench: Bench) -> None:
    bench.steps(1, 70).steps(71, 1000, loss=8.0)
    first = bench.state.incidents[0]
    assert (first.state, first.tries[-1].outcome) == (IncidentState.EXHAUSTED, Outcome.OBSERVED)
    assert "taken as the new normal" in first.verdict
    assert len(first.pages) == 1
    bench.steps(1001, 1020, loss=30.0)
    assert bench.state.incidents[-1].onset_step == 1001
    assert not acts(bench)


def test_out_of_rungs_a_person_is_told_and_training_is_kept() -> None:
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    bench = Bench(build_policy(playbooks={"non_finite": [page]}), observe_only=True).launched()
    bench.steps(1, 60).step(61, nan)
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert bench.decided(a.SendPage)
    assert not bench.state.giving_up
    assert not acts(bench)


def test_a_dead_keeper_is_no_reason_to_kill_what_it_kept_until_nothing_of_it_lives(bench: Bench) -> None:
    bench.steps(1, 20).seen(Orphaned(1, (7, 8), "keeper gone"))
    assert not acts(bench)
    bench.seen(Orphaned(1, (), "keeper gone"))
    assert len(bench.decided(a.KillAttempt)) == 1, "there is nobody left to kill: this writes its exit report"


def test_a_person_may_still_stop_it(bench: Bench) -> None:
    bench.steps(1, 20)
    bench.wants_stop()
    assert len(bench.decided(a.RequestStop)) == 1


def test_acting_again_in_the_next_session_treats_what_was_only_observed() -> None:
    bench = Bench(observe_only=True).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).checkpoint(60).step(61, nan)
    bench.exits(signal=9)
    bench.done("page/1").done("page/2").die(observe_only=False)
    assert bench.resumed_from == 50, "the incident was never repaired: not past its onset"
