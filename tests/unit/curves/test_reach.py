"""The one rule of every vertical scale: what survives sets it, and neither an abandoned step nor a spike of a few rows does."""

from __future__ import annotations

import math
import random

import pytest

from sentinel.curves.reach import Reach, reach_of

LOSS = [2.5 + 0.3 * math.sin(step) for step in range(200)]


def test_what_a_rollback_threw_away_sets_no_scale() -> None:
    assert reach_of(LOSS, [1e6] * 50) == Reach(min(LOSS), max(LOSS))
    assert reach_of([2.0, 3.0], [1.6, 3.4, 3.6]) == Reach(1.6, 3.4), "what lies near is shown, too"
    assert reach_of([], [3.0, 4.0]) == Reach(3.0, 4.0), "unless nothing else was told"
    assert reach_of([math.nan], [3.0, math.inf]) == Reach(3.0, 3.0)
    assert reach_of([], [math.nan]) is None


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("count", [40, 240, 5_000])
def test_the_few_rows_of_a_spike_set_no_scale(rows: int, count: int) -> None:
    level = [LOSS[step % 200] for step in range(count)]
    found = reach_of([*level[: count // 2], *[900.0] * rows, *level[count // 2 :]])
    assert found == Reach(min(level), max(level))
    assert found.side(900.0) == 1
    assert found.side(2.5) == 0
    assert reach_of([*level, *[-900.0] * rows]) == Reach(min(level), max(level))


def test_what_lasts_is_shown_whole() -> None:
    assert reach_of([*LOSS, *[900.0] * 60]) == Reach(min(LOSS), 900.0)
    falling = [3 + 8 * math.exp(-step / 40) for step in range(200)]
    assert reach_of(falling) == Reach(min(falling), max(falling)), "where a run begins is no spike"
    assert reach_of([1.0, 2.0, 900.0]) == Reach(1.0, 900.0), "three points say nothing of what is usual"


def test_a_level_curve_that_moves_is_shown() -> None:
    assert reach_of([65536.0] * 100 + [32768.0]) == Reach(32768.0, 65536.0)
    assert reach_of([1e-4] * 100 + [2e-4]) == Reach(1e-4, 2e-4)
    assert reach_of([1.0] * 100 + [50.0]) == Reach(1.0, 1.0)
    assert reach_of([0.0] * 100 + [0.1]) == Reach(0.0, 0.0)


def test_a_logarithmic_scale_measures_in_powers() -> None:
    norms = [10 ** (step % 20 / 20) for step in range(200)]
    assert reach_of([*norms, 100.0], is_log=True) == Reach(1.0, 100.0)
    assert reach_of([*norms, 100.0]) == Reach(1.0, max(norms))
    assert reach_of([*norms, 1e9], is_log=True) == Reach(1.0, max(norms))
    assert reach_of([*norms, 0.0], is_log=True) == reach_of([*norms, 0.0]), "zero has no logarithm"


def test_at_most_one_point_in_twenty_lies_outside_of_a_long_curve() -> None:
    for seed in range(30):
        dice = random.Random(seed)
        values = [dice.lognormvariate(0, dice.choice([0.2, 1, 3])) for _ in range(dice.randrange(400, 9_000))]
        found = reach_of(values)
        assert found is not None
        outside = [value for value in values if found.side(value)]
        assert len(outside) <= len(values) / 20 * 1.2 + 5, seed
