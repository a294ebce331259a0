"""A learning rate that rises again after it fell, and where the loss stood when it was last so high."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from sentinel.streams.rate_returns import RateReturns


def returns(rates: Iterable[float]) -> list[int]:
    watch = RateReturns()
    return [at for at, rate in enumerate(rates) if watch.take(rate)]


def cosine(row: int, length: int = 100) -> float:
    return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * (row % length) / length))


def test_a_warm_restart_returns_at_its_second_row() -> None:
    assert returns(cosine(row) for row in range(250)) == [101, 201]


def test_a_second_warm_up_returns_by_half_and_half_and_not_beyond_where_the_rate_was() -> None:
    rates = [1.0] * 5 + [0.1] * 5 + [0.1 + 0.05 * row for row in range(30)]
    assert returns(rates) == [13, 17, 23]
    assert rates[23] < 1.0 < max(rates)


@pytest.mark.parametrize("rates", [
    [1e-5 * row for row in range(1, 100)],
    [1e-8 * 1.1**row for row in range(100)],
    [cosine(row, 500) for row in range(400)],
    [1.0] * 20 + [0.1] * 20,
    [1e-3, 1e-4] * 30,
    [1.0] * 5 + [0.1] * 5 + [1.0] + [0.1] * 20,
    [1.0] * 20 + [1e-6] + [1.0] * 20 + [1e-6] + [1.0] * 20,
    [1e-3] * 20 + [0.0, math.nan, math.inf] + [1e-3] * 20,
])  # fmt: skip
def test_warm_up_decay_wrong_rows_and_groups_logged_in_turn_are_no_returns(rates: list[float]) -> None:
    assert returns(rates) == []


def test_the_level_of_a_first_cycle_is_the_newest_at_its_rate_and_of_a_later_one_the_highest() -> None:
    watch = RateReturns()
    assert watch.level_at(1.0) is None
    for row in range(400):
        rate = cosine(row)
        if watch.take(rate) and row == 101:
            assert watch.level_at(rate) == pytest.approx(4.6, abs=0.1), "at two thirds of the rate, or a little more"
        if row != 100:
            watch.note(rate, 5.0 - 0.01 * row if row < 100 else 2.0 + rate)
    assert watch.level_at(1.0) == pytest.approx(3.0, abs=0.01)
