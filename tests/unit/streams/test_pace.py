"""Learned step time."""

from __future__ import annotations

from sentinel.streams.pace import STEP_TIME_FLOOR_S, Pace


def test_it_is_unknown_until_three_intervals() -> None:
    pace = Pace()
    known = []
    for step in range(1, 6):
        pace.add(step, 2.0 * step)
        known.append(pace.step_time_s)
    assert known == [None, None, None, 2.0, 2.0]


def test_it_is_per_step_whatever_the_logging_interval() -> None:
    pace = Pace()
    for step in range(100, 1000, 100):
        pace.add(step, 0.5 * step)
    assert pace.step_time_s == 0.5


def test_it_follows_a_run_that_became_slower() -> None:
    pace = Pace()
    for step in range(1, 100):
        pace.add(step, float(step))
    for step in range(100, 200):
        pace.add(step, 99.0 + 30.0 * (step - 99))
    assert pace.step_time_s == 30.0


def test_zero_negative_and_non_finite_intervals_are_not_learned() -> None:
    pace = Pace()
    for step, time_s in enumerate((1.0, 2.0, 2.0, 1.0, float("nan"), 3.0, 4.0, 5.0, float("inf"), 6.0, 7.0), start=1):
        pace.add(step, time_s)
    assert pace.step_time_s == 1.0


def test_a_very_fast_run_has_a_floor() -> None:
    pace = Pace()
    for step in range(1, 10):
        pace.add(step, step * 1e-6)
    assert pace.step_time_s == STEP_TIME_FLOOR_S


def test_a_launch_keeps_the_pace_and_leaves_its_first_interval_out() -> None:
    pace = Pace()
    for step in range(1, 6):
        pace.add(step, float(step))
    pace.begin()
    pace.add(6, 900.0)
    assert pace.step_time_s == 1.0
    pace.forget()
    assert pace.step_time_s is None


def test_an_interrupted_interval_is_left_out() -> None:
    pace = Pace()
    for step in range(1, 20):
        pace.interrupt()
        pace.add(step, 60.0 * step)
    assert pace.step_time_s is None
