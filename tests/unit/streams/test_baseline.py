"""Baselines that cannot be poisoned and do not go blind."""

from __future__ import annotations

import random

import pytest

from sentinel.streams.baseline import Baseline
from sentinel.streams.level import measure_level


def learned(count: int = 300, *, every: int = 1, log_space: bool = False, seed: int = 1) -> Baseline:
    dice = random.Random(seed)
    baseline = Baseline(200, 20, 50, log_space=log_space)
    for index in range(1, count + 1):
        baseline.learn(index * every, 2.0 * dice.lognormvariate(0.0, 0.02))
    return baseline


@pytest.mark.parametrize("every", [1, 5, 100, 500])
@pytest.mark.parametrize("log_space", [False, True])
def test_a_jump_stands_out_at_every_interval(every: int, log_space: bool) -> None:
    baseline = learned(every=every, log_space=log_space)
    score = baseline.judge(301 * every, 3.0)
    assert score is not None
    assert score.z > 12
    assert score.rise == pytest.approx(0.5, abs=0.05)


def test_judging_changes_nothing() -> None:
    baseline = learned()
    first = baseline.judge(301, 2.05)
    for _ in range(50):
        baseline.judge(301, 1e9)
    assert baseline.judge(301, 2.05) == first


def test_too_little_past_is_unknown() -> None:
    baseline = Baseline(200, 20, 50, log_space=False)
    for step in range(1, 40):
        baseline.learn(step, 2.0)
    assert baseline.judge(40, 9.0) is None
    coarse = learned(20, every=100)
    assert coarse.judge(2100, 9.0) is None


def test_values_that_are_no_number_are_neither_judged_nor_learned() -> None:
    baseline = learned()
    before = baseline.level()
    for value in (float("nan"), float("inf"), float("-inf")):
        assert baseline.judge(301, value) is None
        baseline.learn(301, value)
        assert not baseline.refuse(301, value)
    assert baseline.level() == before
    norm = learned(log_space=True)
    assert norm.judge(301, 0.0) is None
    norm.learn(301, -1.0)


def test_refused_values_stay_out() -> None:
    baseline = learned()
    before = baseline.level()
    for step in range(301, 330):
        baseline.refuse(step, 50.0)
    assert baseline.level() == before


def test_a_breach_longer_than_the_window_becomes_the_new_normal_with_a_reason() -> None:
    baseline = learned()
    rebuilt = [baseline.refuse(step, 4.0 + 0.01 * (step % 7)) for step in range(301, 502)]
    assert rebuilt == [False] * 200 + [True]
    level = baseline.level()
    assert level is not None
    assert 4.0 <= level.median <= 4.06
    assert "301 to 501" in baseline.rebase_reason
    score = baseline.judge(502, 4.03)
    assert score is not None
    assert score.z < 3


def test_a_few_clean_rows_end_a_breach_s_count() -> None:
    baseline = learned()
    for start in range(301, 1200, 60):
        for step in range(start, start + 50):
            assert not baseline.refuse(step, 9.0)
        for step in range(start + 50, start + 60):
            baseline.learn(step, 2.0)
    assert baseline.rebased == 0


def test_a_cut_level_is_the_newest_samples() -> None:
    baseline = learned()
    for step in range(301, 306):
        baseline.learn(step, 1.0)
    baseline.cut_level()
    level = baseline.level()
    assert level is not None
    assert level.median == 1.0
    assert baseline.judge(306, 1.0) is not None


def test_a_cut_forgets_everything() -> None:
    baseline = learned()
    baseline.cut()
    assert baseline.level() is None
    assert baseline.judge(301, 2.0) is None


def test_a_hole_in_the_steps_or_another_interval_cuts() -> None:
    baseline = learned()
    assert baseline.judge(501, 9.0) is None
    coarse = learned(every=100)
    assert coarse.judge(30_500, 2.0) is not None


def test_a_falling_loss_is_judged_from_where_it_is_and_not_from_the_lagging_level() -> None:
    baseline = Baseline(200, 20, 50, log_space=False)
    dice = random.Random(2)
    for step in range(1, 301):
        baseline.learn(step, 10.0 - 0.02 * step + dice.gauss(0.0, 0.02))
    score = baseline.judge(301, 10.0 - 0.02 * 301 + 0.25)
    assert score is not None
    assert score.z > 8


def test_a_flat_metric_has_no_spread_and_breaks_nothing() -> None:
    baseline = Baseline(200, 20, 50, log_space=False)
    for step in range(1, 200):
        baseline.learn(step, 2.0)
    assert baseline.judge(200, 2.0) == (0.0, 0.0)
    score = baseline.judge(200, 2.2000001)  # a number that was not rounded
    assert score is not None
    assert score.z > 1e6


@pytest.mark.parametrize(("places", "value", "z"), [(1, 2.2, 2.7), (2, 2.06, 8.1), (4, 2.0003, 4.0)])
def test_a_log_s_own_rounding_is_the_least_spread(places: int, value: float, z: float) -> None:
    """Two decimals and a flat stretch once gave a z of a hundred million to a step of one last place. Where one number is all
    that is seen, deviations of half a place are not: 1.48 times that is the least spread."""
    baseline = Baseline(200, 20, 50, log_space=False)
    for step in range(1, 200):
        baseline.learn(step, 2.0)
    baseline.learn(200, 2.0 + 10.0**-places)  # shows how exactly this log is written
    score = baseline.judge(201, value)
    assert score is not None
    assert score.z == pytest.approx(z, abs=0.1)


def test_the_rounding_of_a_norm_is_judged_in_its_own_units() -> None:
    baseline = Baseline(200, 20, 50, log_space=True)
    for step in range(1, 200):
        baseline.learn(step, 0.25)
    baseline.learn(200, 0.26)
    score = baseline.judge(201, 0.27)
    assert score is not None
    assert 2.0 < score.z < 3.0  # two of its last places above a level of 0.25


def test_a_level_with_nan_in_it_is_high_and_never_absent() -> None:
    level = measure_level([(1, 2.0), (2, float("nan")), (3, float("nan"))])
    assert level is not None
    assert level.median == float("inf")
    assert measure_level([]) is None
