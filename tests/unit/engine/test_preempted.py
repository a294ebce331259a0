"""A stop that nobody asked sentinel for is an incident: the run goes on after a pause, and a person is called when it comes again
and again. What a person asked sentinel for stays a stop."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from sentinel.engine import evolve
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from tests.builders import POLICY, Bench, build_policy

RELAUNCH = [*({"resume": {"from": "newest"}} for _ in range(3)), {"page": {"severity": "critical"}, "then": "stop_now"}]
RULE = {"alert": "Preempted", "on": "preempted", "labels": {"severity": "warning"}, "playbook": "relaunch"}


def policy(**spec: Any) -> Policy:
    return build_policy(playbooks={"relaunch": RELAUNCH}, rules=[*POLICY["spec"]["rules"], RULE], **spec)


def preempted(bench: Bench) -> Bench:
    bench.exits(code=6)
    return bench


def test_ranks_that_saved_and_left_unasked_are_resumed_from_what_they_saved_after_a_pause() -> None:
    bench = Bench(policy()).launched()
    bench.steps(1, 30).checkpoint(30)
    preempted(bench)
    assert (bench.incident.kind, bench.incident.state) == (Kind.PREEMPTED, IncidentState.OPEN)
    assert bench.state.attempts[-1].outcome == "preempted"
    (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
    assert start.resume is not None
    assert start.resume.step == 30
    assert 1.0 <= start.not_before_s - bench.now_s <= 1.5, "the shortest pause, and up to a half more, also after progress"
    bench.launched().steps(31, 95)
    assert bench.incident.state is IncidentState.RECOVERED
    assert not bench.decided(a.SendPage)


def test_again_and_again_without_a_step_in_between_calls_a_person() -> None:
    bench = Bench(policy(budget={"without_progress": 9, "backoff": "1s..1m"})).launched()
    bench.steps(1, 30).checkpoint(30)
    for _ in range(4):
        preempted(bench)
        if not bench.state.ended:
            bench.launched()
    assert bench.state.ended == "failed"
    assert [incident.kind for incident in bench.state.incidents] == [Kind.PREEMPTED]
    assert len(bench.decided(a.SendPage)) == 1


def test_before_the_first_step_it_is_no_broken_job() -> None:
    bench = Bench(policy())
    for _ in range(3):
        preempted(bench.launched(receipt=False))
    assert bench.state.ended == "failed"
    assert "broken job" not in bench.state.end_reason
    assert [incident.kind for incident in bench.state.incidents] == [Kind.PREEMPTED]


def test_a_policy_without_a_rule_on_it_relaunches_it_as_a_crash() -> None:
    bench = Bench().launched()
    bench.steps(1, 30).checkpoint(30)
    preempted(bench)
    assert bench.incident.kind is Kind.CRASH
    assert "stopped from outside, and not by sentinel" in bench.incident.reason
    assert bench.state.plan is not None
    assert bench.state.attempts[-1].failed == "", "no checkpoint is to blame"


def test_a_policy_without_either_fails_the_run_and_says_so() -> None:
    bench = Bench(build_policy(rules=[{"alert": "Spike", "on": "spike", "playbook": "numeric"}])).launched()
    bench.steps(1, 10)
    preempted(bench)
    assert bench.state.ended == "failed"
    assert "nothing is to be relaunched" in bench.state.end_reason


@pytest.mark.parametrize("first", ["stop", "exit"])
def test_a_stop_that_a_person_asked_for_stays_a_stop_whichever_comes_first(first: str) -> None:
    bench = Bench(policy()).launched()
    bench.steps(1, 30).checkpoint(30)
    if first == "stop":
        bench.wants_stop()
        preempted(bench)
        assert not bench.state.incidents
    else:  # the scheduler signals the ranks and sentinel, and the ranks were faster: the relaunch is still waiting
        preempted(bench)
        while not isinstance(bench.state.plan.actions[bench.state.plan.next], a.StartAttempt):
            bench.done(bench.state.plan.actions[bench.state.plan.next].key)
        bench.wants_stop()
    assert bench.state.ended == "stopped"
    assert "SIGTERM" in bench.state.end_reason


@pytest.mark.parametrize("how", [{"signal": 15}, {"code": 6}], ids=["SIGTERM", "saved and left"])
def test_evictions_end_no_run_that_gains_steps_and_are_told_once_in_the_period(how: dict[str, int]) -> None:
    bench = Bench(policy(budget={"interventions": "3 per 24h", "preemptions": "3 per 24h", "backoff": "1s..1m"}))
    pages = []
    for number in range(1, 11):
        bench.launched().steps(number * 10 - 9, number * 10).checkpoint(number * 10).exits(**how)
        assert bench.state.ended == ""
        assert bench.state.attempts[-1].outcome == "preempted"
        pages.append(len([one for one in bench.decided(a.SendPage) if one.stage == "trigger"]))
    assert pages == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    (raised,) = bench.of(f.PageRaised)
    assert "stopped from outside 4 times within 24h (budget: 3)" in raised.text
    assert "sentinel relaunches it by itself" in raised.text
    assert bench.state.interventions_s == ()


def test_of_evictions_beyond_the_restarts_the_next_launch_waits_until_one_is_free() -> None:
    bench = Bench(policy(budget={"restarts": "4 per 1h", "preemptions": "9 per 24h", "backoff": "1s..1m"}))
    for number in range(1, 6):
        bench.launched().steps(number * 10 - 9, number * 10).checkpoint(number * 10).exits(signal=15)
    (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
    assert 3500 < start.not_before_s - bench.now_s < 3600
    (raised,) = bench.of(f.PageRaised)
    assert "restarts: 4 per 1h are spent" in raised.text


def test_what_an_older_journal_counted_as_interventions_holds_up_no_relaunch() -> None:
    bench = Bench(policy(budget={"per_cause": "2 per 24h", "backoff": "1s..1m"}))
    for number in range(1, 4):
        bench.launched().steps(number * 10 - 9, number * 10).checkpoint(number * 10)
        bench.entries = [
            replace(one, fact=replace(one.fact, intervention=True)) if isinstance(one.fact, f.RungTaken) else one
            for one in bench.entries
        ]
        bench.folded = reduce(lambda state, one: evolve(state, one.at_s, one.fact), bench.entries, RunState())
        bench.die().exits(signal=15)
    assert len(bench.state.interventions_s) == 2
    (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
    assert start.not_before_s - bench.now_s < 2.0
    assert not bench.of(f.PageRaised)


def test_evictions_use_up_nothing_that_crashes_need_and_crashes_keep_their_budget() -> None:
    bench = Bench(policy(budget={"interventions": "3 per 24h", "backoff": "1s..1m"}))
    last = 0
    for how in [*({"signal": 15} for _ in range(5)), *({"signal": 9} for _ in range(3)), {"signal": 15}, {"signal": 9}]:
        assert bench.state.ended == ""
        bench.launched().steps(last + 1, last + 10).checkpoint(last + 10).exits(**how)
        last += 10
    assert bench.state.ended == "failed"
    assert "interventions: 3 per 24h are spent" in bench.state.end_reason
