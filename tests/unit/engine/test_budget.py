"""How much may be tried, how long to pause, and when the counts start again."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from tests.builders import Bench, build_policy

PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}
MANY = [*({"resume": {"from": "newest"}} for _ in range(12)), PAGE]


def policy(**budget: str | int) -> Any:
    return build_policy(playbooks={"restart": MANY}, budget={"backoff": "1s..1m"} | budget)


def test_a_trainer_that_dies_before_its_first_step_three_times_is_a_broken_job_and_the_run_ends() -> None:
    bench = Bench(policy())
    for _ in range(3):
        bench.launched(receipt=False).beat("init").exits(code=1)
    assert bench.state.ended == "failed"
    assert "broken job: 3 launches in a row died before their first step" in bench.state.end_reason
    assert len(bench.state.attempts) == 3
    assert [(i.kind, i.state) for i in bench.state.incidents] == [
        ("crash", IncidentState.EXHAUSTED), ("broken_job", IncidentState.EXHAUSTED),
    ]  # fmt: skip
    (page,) = bench.decided(a.SendPage)
    assert page.incident == bench.incident.id
    assert "died before their first step, the last so: " in page.text


@pytest.mark.parametrize("end", [{"hold": True}, {"page": {"severity": "warning"}, "then": "hold"}])
def test_the_playbook_of_a_broken_job_says_what_follows(end: dict[str, Any]) -> None:
    bench = Bench(build_policy(playbooks={"restart": MANY, "call": [end]}, budget={"backoff": "1s..1m"}))
    for _ in range(3):
        bench.launched(receipt=False).beat("init").exits(code=1)
    assert bench.incident.playbook == "call"
    assert bench.state.held
    assert len(bench.decided(a.SendPage)) == 1


def test_deaths_after_a_first_step_are_crashes_however_many() -> None:
    bench = Bench(policy(without_progress=3)).launched()
    bench.steps(1, 30).checkpoint(30)
    for _ in range(8):
        bench.exits(signal=9)
        if bench.state.ended:
            break
        bench.launched().steps(31, 31)
    assert {i.kind for i in bench.state.incidents} == {"crash"}
    assert bench.state.ended == "failed"


def test_launches_that_trained_again_what_was_trained_before_did_not_die_before_their_first_step() -> None:
    """Only the last did; the others made no progress, and that is what is said."""
    bench = Bench(policy(without_progress=3)).launched()
    bench.steps(1, 35).checkpoint(30).exits(signal=9)
    for _ in range(2):
        bench.launched().steps(31, 34).exits(signal=9)
    bench.launched(receipt=False).beat("init").exits(code=1)
    assert (bench.state.ended, len(bench.state.attempts)) == ("failed", 4)
    assert "before their first step" not in bench.state.end_reason
    assert bench.state.end_reason.startswith("budget: 3 restarts in a row without progress")
    assert all("before their first step" not in page.text for page in bench.decided(a.SendPage))


def test_without_a_rule_that_calls_anybody_a_broken_job_stays_a_crash_and_is_paged() -> None:
    rules = [{"alert": "Crash", "on": "crash", "labels": {"severity": "critical"}, "playbook": "restart"}]
    for more in ([], [{"alert": "B", "on": "broken_job", "labels": {"severity": "info"}}]):
        bench = Bench(build_policy(playbooks={"restart": MANY}, rules=[*rules, *more]))
        for _ in range(3):
            bench.launched(receipt=False).beat("init").exits(code=1)
        assert {i.kind for i in bench.state.incidents} == {"crash"}
        assert "broken job: 3 launches in a row" in bench.state.end_reason
        assert bench.decided(a.SendPage)


def test_a_person_who_starts_a_broken_job_again_has_its_deaths_counted_anew() -> None:
    bench = Bench(policy())
    for _ in range(3):
        bench.launched(receipt=False).beat("init").exits(code=1)
    bench.done("page").die()
    bench.launched(receipt=False).beat("init").exits(code=1)
    assert bench.incident.kind == "crash"
    assert bench.state.plan is not None


def test_no_pause_after_progress_then_doubling_while_nothing_is_gained() -> None:
    bench = Bench(policy(without_progress=9)).launched()
    bench.steps(1, 30)
    waits = []
    for _ in range(4):
        bench.exits(signal=9)
        while not any(key.startswith("start/") for key in bench.state.pending):
            bench.done(next(iter(bench.state.pending)))
        decided = next(entry for entry in reversed(bench.entries) if isinstance(entry.fact, f.RungTaken))
        start = bench.decided(a.StartAttempt)[-1]
        waits.append(round(max(0.0, start.not_before_s - decided.at_s), 3))
        bench.launched().steps(bench.resumed_from + 1, 20)
    assert all(wait <= got <= 1.5 * wait for got, wait in zip(waits, (0.0, 1.0, 2.0, 4.0), strict=True)), waits


def test_a_damaged_checkpoint_does_not_shorten_the_pause() -> None:
    bench = Bench(policy(without_progress=9)).launched()
    bench.steps(1, 30).checkpoint(10).checkpoint(20)
    bench.exits(signal=9).launched().steps(21, 22).exits(signal=9)
    due_s = next(x.not_before_s for x in bench.state.plan.actions if isinstance(x, a.StartAttempt)) if bench.state.plan else 0.0
    assert due_s > bench.now_s
    bench.done("capture").fails("verify/3/20", "sha256 differs")
    assert bench.state.plan is not None
    start = next(x for x in bench.state.plan.actions if isinstance(x, a.StartAttempt))
    assert start.not_before_s == due_s
    assert bench.resumed_from == 10


def test_interventions_beyond_the_budget_call_a_person_instead() -> None:
    bench = Bench(policy(interventions="2 per 1h")).launched()
    for last in (10, 20, 30):
        bench.steps(bench.resumed_from + 1, last)
        bench.exits(signal=9)
        if bench.state.plan:
            bench.launched()
    assert bench.state.ended == "failed"
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert "interventions: 2 per 1h are spent" in bench.state.end_reason


def test_restarts_count_within_their_period_only() -> None:
    bench = Bench(policy(restarts="2 per 1h")).launched()
    for last in (10, 20, 30, 40):
        bench.steps(bench.resumed_from + 1, last)
        bench.now_s += 2000
        bench.exits(signal=9).launched()
    assert len(bench.state.attempts) == 5


def test_budgets_survive_a_restart_of_the_supervisor() -> None:
    bench = Bench(policy(interventions="2 per 1h")).launched()
    for last in (10, 20):
        bench.steps(bench.resumed_from + 1, last)
        bench.exits(signal=9).launched()
    bench.die()
    bench.steps(bench.resumed_from + 1, 30).exits(signal=9)
    assert bench.state.ended == "failed"


def test_enough_new_steps_refill_the_interventions() -> None:
    bench = Bench(policy(interventions="2 per 24h", refill_after_progress="50 steps")).launched()
    for last in (10, 20):
        bench.steps(bench.resumed_from + 1, last)
        bench.exits(signal=9).launched()
    bench.steps(1, 69).exits(signal=9)
    assert bench.state.ended == "failed", "49 steps since the last intervention at step 20"
    bench = Bench(policy(interventions="2 per 24h", refill_after_progress="50 steps")).launched()
    for last in (10, 20):
        bench.steps(bench.resumed_from + 1, last)
        bench.exits(signal=9).launched()
    bench.steps(1, 70).exits(signal=9)
    assert bench.of(f.BudgetRefilled)
    assert len(bench.state.interventions_s) == 1


def test_climbing_the_rungs_of_a_numeric_incident_is_not_being_stuck() -> None:
    """Each rung goes back and trains the same steps again: that is what it is for."""
    rungs = [{"rollback": {"before_onset": "4 steps"}}, *({"rollback": {"further": "1.5x"}} for _ in range(4)), PAGE]
    bench = Bench(build_policy(playbooks={"non_finite": rungs})).launched()
    for _ in range(5):
        bench.steps(bench.resumed_from + 1, 50).step(51, nan)
        assert bench.state.plan is not None
        bench.launched()
    assert bench.state.without_progress == 0


def test_interventions_for_one_kind_of_incident_have_a_count_of_their_own() -> None:
    bench = Bench(policy(per_cause="1 per 24h", refill_after_progress="1000 steps")).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).exits(signal=9)
    bench.launched().steps(51, 60).checkpoint(60)
    bench.steps(61, 80).steps(81, 88, loss=8.0)
    assert bench.state.incidents[-1].state is not IncidentState.EXHAUSTED, "a spike is another cause than the crash"
    bench.launched().steps(61, 80).exits(signal=9)
    crash = bench.state.incidents[-1]
    assert (crash.kind, crash.state) == (Kind.CRASH, IncidentState.EXHAUSTED)
    assert "per_cause: 1 per 24h are spent" in crash.tries[-1].reason
