"""Rises that came back by themselves, and what they say of the next one."""

from __future__ import annotations

from sentinel.streams.swings import Swings


def fed(levels: list[float], *, lone_counts: bool = False, kept: int = 200) -> Swings:
    swings = Swings(kept, lone_counts=lone_counts)
    for at, level in enumerate(levels):
        swings.take(at, level, 0.05)
    return swings


UP_AND_BACK = [1.0, 1.5, 2.0, 1.5, 1.0]


def test_what_never_came_back_asks_for_nothing() -> None:
    assert fed([1.0, 1.5, 2.0, 2.5]).limit(4, 1.0) == 1.0
    assert fed([3.0, 2.0, 1.5, 1.2, 1.1]).limit(5, 1.1) == 1.1, "a descent is no swing"


def test_a_rise_must_go_half_as_far_again_as_the_one_before_it_in_its_rhythm() -> None:
    assert fed(UP_AND_BACK).limit(6, 1.0) == 2.5


def test_one_that_came_back_alone_and_long_ago_may_have_been_a_fault() -> None:
    """It took four places, and the next one follows after more than four times as many."""
    assert fed(UP_AND_BACK).limit(20, 1.0) == 2.5
    assert fed(UP_AND_BACK).limit(21, 1.0) == 1.0
    assert fed(UP_AND_BACK, lone_counts=True).limit(21, 1.0) == 2.5


def test_two_are_remembered_for_as_long_as_anything_is() -> None:
    twice = UP_AND_BACK + UP_AND_BACK[1:]
    assert fed(twice).limit(204, 1.0) == 2.5
    assert fed(twice).limit(300, 1.0) == 1.0


def test_a_swing_on_a_descent_need_only_go_as_high_as_the_one_before_it() -> None:
    """The descent hides a part of the first rise."""
    assert fed([2.0, 1.8, 2.0, 1.4]).limit(4, 1.0) == 2.0


def test_what_is_smaller_than_the_noise_is_no_swing() -> None:
    assert fed([1.0, 1.04, 1.0, 1.04, 1.0]).limit(5, 1.0) == 1.0
