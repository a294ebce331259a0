"""Budgets count within a period, never over a lifetime, and the pause grows only while nothing is gained."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sentinel.policy.budget import backoff_s, draw_spread, judge_budget
from sentinel.policy.quantities import Rate
from sentinel.policy.schema import Budget

DEFAULT = Budget()
# Whole seconds: exact in floats, so that limits can be met to the second.
TIMES = st.lists(st.integers(0, 100_000).map(float), max_size=40).map(tuple)
BUDGETS = st.builds(
    lambda count, period, other, other_period, streak, low, more: Budget.model_validate(
        {
            "restarts": f"{count} per {period}s",
            "interventions": f"{other} per {other_period}s",
            "without_progress": streak,
            "backoff": f"{low}s..{low + more}s",
        }
    ),
    st.integers(1, 20), st.integers(1, 90_000), st.integers(1, 20), st.integers(1, 90_000), st.integers(1, 9),
    st.integers(1, 30), st.integers(0, 900),
)  # fmt: skip


def counted(rate: Rate, now_s: float, times_s: tuple[float, ...]) -> int:
    return sum(now_s - rate.period_s < time_s for time_s in times_s)


def test_the_first_restart_after_progress_has_no_pause():
    verdict = judge_budget(DEFAULT, 1000.0, (), (900.0,), without_progress=0)
    assert (verdict.allowed, verdict.wait_s) == (True, 0.0)
    assert verdict.reason == "1 of 20 restarts in 1h; no pause after progress"


def test_the_pause_doubles_from_shortest_to_longest():
    budget = Budget.model_validate({"without_progress": 20})
    pauses = [judge_budget(budget, 0.0, (), (), without_progress=streak).wait_s for streak in range(10)]
    assert pauses == [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]


def test_a_pause_that_is_asked_for_is_kept_after_progress_too_and_counts_as_no_streak():
    once = Budget.model_validate({"without_progress": 1})
    verdict = judge_budget(once, 0.0, (), (), without_progress=0, pauses=True)
    assert (verdict.allowed, verdict.wait_s) == (True, 5.0)
    assert judge_budget(DEFAULT, 0.0, (), (), without_progress=2, pauses=True).wait_s == 10.0


def test_restarts_without_progress_are_refused_until_progress():
    verdict = judge_budget(DEFAULT, 1000.0, (), (), without_progress=3)
    assert (verdict.allowed, verdict.wait_s) == (False, math.inf)
    assert verdict.reason == "3 restarts in a row without progress spend without_progress: 3; only progress frees it, not time"


def test_a_spent_limit_says_which_one_and_when_it_frees():
    restarts = tuple(1000.0 + i for i in range(20))
    verdict = judge_budget(DEFAULT, 1300.0, (), restarts, without_progress=0)
    assert (verdict.allowed, verdict.wait_s) == (False, 3300.0)
    assert verdict.reason == "restarts: 20 per 1h are spent; one frees in 55 min"
    interventions = tuple(1000.0 + i for i in range(12))
    verdict = judge_budget(DEFAULT, 1300.0, interventions, restarts, without_progress=0)
    assert verdict.reason.startswith("interventions: 12 per 24h are spent")


def test_counts_are_not_of_a_lifetime():
    long_ago = tuple(float(i) for i in range(1000))
    assert judge_budget(DEFAULT, 1e6, long_ago, long_ago, without_progress=0).allowed


@given(BUDGETS, TIMES, TIMES, st.integers(0, 12))
def test_allowed_exactly_when_every_count_has_room(budget, interventions, restarts, streak):
    now_s = 100_000.0
    verdict = judge_budget(budget, now_s, interventions, restarts, streak)
    room = counted(budget.restarts, now_s, restarts) < budget.restarts.count
    room = room and counted(budget.interventions, now_s, interventions) < budget.interventions.count
    assert verdict.allowed == (room and streak < budget.without_progress)
    assert verdict.reason
    assert verdict.wait_s >= 0


@given(BUDGETS, TIMES, TIMES, st.integers(0, 12))
def test_a_refusal_frees_when_it_says_and_not_a_second_sooner(budget, interventions, restarts, streak):
    now_s = 100_000.0
    verdict = judge_budget(budget, now_s, interventions, restarts, streak)
    if verdict.allowed or math.isinf(verdict.wait_s):
        return
    assert judge_budget(budget, now_s + verdict.wait_s, interventions, restarts, streak).allowed
    assert not judge_budget(budget, now_s + verdict.wait_s - 0.5, interventions, restarts, streak).allowed


@given(BUDGETS, st.randoms(use_true_random=False), TIMES)
def test_the_order_of_times_does_not_matter(budget, dice, times):
    shuffled = list(times)
    dice.shuffle(shuffled)
    assert judge_budget(budget, 1e5, times, times, 0) == judge_budget(budget, 1e5, tuple(shuffled), tuple(shuffled), 0)


@given(BUDGETS, st.lists(st.integers(0, 400), max_size=120))
def test_obeyed_it_never_lets_more_restarts_into_a_period(budget, gaps):
    now_s, restarts = 0.0, []
    for gap in gaps:
        now_s += gap
        if judge_budget(budget, now_s, (), tuple(restarts), 0).allowed:
            restarts.append(now_s)
    for start in restarts:
        within = [time_s for time_s in restarts if start <= time_s < start + budget.restarts.period_s]
        assert len(within) <= budget.restarts.count


@given(BUDGETS, st.integers(0, 10**6))
def test_the_pause_stays_in_its_range_and_never_shrinks(budget, streak):
    pause_s, next_s = backoff_s(budget, streak), backoff_s(budget, streak + 1)
    assert pause_s == 0.0 if streak == 0 else budget.backoff[0] <= pause_s <= budget.backoff[1]
    assert next_s >= pause_s


def test_what_keeps_striking_does_not_use_up_what_the_others_need() -> None:
    budget = Budget.model_validate({"interventions": "12 per 24h", "per_cause": "2 per 1h"})
    spikes = (100.0, 200.0)
    refused = judge_budget(budget, 300.0, (*spikes, 250.0), (), 0, same_cause_s=spikes)
    assert (refused.allowed, refused.wait_s) == (False, 3400.0)
    assert refused.reason == "per_cause: 2 per 1h are spent; one frees in 56 min 40 s"
    assert judge_budget(budget, 300.0, (*spikes, 250.0), (), 0, same_cause_s=(250.0,)).allowed


def test_a_pause_is_spread_by_run_and_attempt_and_never_beyond_the_longest() -> None:
    drawn = [draw_spread(f"run-{number}", 2) for number in range(200)]
    assert min(drawn) >= 1.0
    assert max(drawn) <= 1.5
    assert max(drawn) - min(drawn) > 0.4
    assert draw_spread("run", 2) == draw_spread("run", 2) != draw_spread("run", 3)
    budget = Budget.model_validate({"backoff": "5s..8s"})
    assert judge_budget(budget, 0.0, (), (), 1, spread=1.2).wait_s == 6.0
    assert judge_budget(budget, 0.0, (), (), 2, spread=1.5).wait_s == 8.0
