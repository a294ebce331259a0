"""Jumps of a learning rate, and what is none: warm-up, decay, one wrong row."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from sentinel.streams.rate_jumps import RateJumps


def jumps(rates: list[float], every: int = 1) -> list[tuple[int, float]]:
    watch = RateJumps()
    taken = [(index, watch.take(index * every, rate)) for index, rate in enumerate(rates)]
    return [(index, round(factor, 3)) for index, factor in taken if factor != 1.0]


def linear_warm_up_and_cosine(step: int) -> float:
    return 3e-4 * (step + 1) / 50 if step < 50 else 1.5e-4 * (1 + math.cos(math.pi * (step - 50) / 950))


def warm_up_stable_decay(step: int) -> float:
    return 3e-4 * min(1.0, (step + 1) / 50, (1000 - step) / 200)


def exponential_warm_up(step: int) -> float:
    return min(3e-4, 1e-8 * 1.1**step)


def inverse_root(step: int) -> float:
    return 1e-3 * min((step + 1) / 100, math.sqrt(100 / (step + 1)))


@pytest.mark.parametrize("schedule", [linear_warm_up_and_cosine, warm_up_stable_decay, exponential_warm_up, inverse_root])
@pytest.mark.parametrize("every", [1, 5, 10, 100])
def test_no_usual_schedule_jumps_at_any_interval(schedule: Callable[[int], float], every: int) -> None:
    seen = jumps([schedule(step) for step in range(every - 1, 1000, every)], every)
    assert not [factor for _, factor in seen if factor > 1.0]
    assert every == 100 or not seen, "a decay of two rows may look like a step down, which only shortens the memory of the level"


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 10.0])
def test_a_step_of_the_schedule_is_one_jump_believed_at_its_second_row(factor: float) -> None:
    assert jumps([1e-3] * 20 + [1e-3 * factor] * 20) == [(21, factor)]


def test_a_jump_out_of_a_warm_up_is_seen() -> None:
    assert [at for at, _ in jumps([1e-5 * step for step in range(1, 21)] + [1e-3] * 20)] == [21]


def test_a_warm_restart_is_seen_although_it_ramps_again() -> None:
    assert [at for at, _ in jumps([1e-3] * 20 + [1e-5 * step for step in range(1, 90)])] == [21]


@pytest.mark.parametrize("rates", [
    [1e-3] * 20 + [5e-2] + [1e-3] * 20,
    [1e-3] * 20 + [0.0] + [1e-3] * 20,
    [1e-3] * 20 + [math.nan] + [1e-3] * 20,
    [1e-3, 1e-4] * 30,
    [1e-3 * (1.0 + 0.1 * (step % 3)) for step in range(60)],
    [0.0] * 10 + [1e-6 * step for step in range(1, 50)],
])  # fmt: skip
def test_wrong_rows_and_groups_logged_in_turn_are_no_jumps(rates: list[float]) -> None:
    assert jumps(rates) == []
