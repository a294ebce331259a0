"""Pending, firing, resolved."""

from __future__ import annotations

import pytest

from sentinel.detectors.hold import Hold, HoldChange, Holding, HoldState


def test_no_hold_fires_at_once() -> None:
    assert Holding(Hold(), calm_steps=1).breach(1, 0.0) is HoldChange.FIRED


def test_steps_are_counted_and_not_rows() -> None:
    per_step = Holding(Hold(steps=5), calm_steps=5)
    assert [per_step.breach(1, float(i)) for i in range(5)] == [HoldChange.PENDING, *[HoldChange.NONE] * 3, HoldChange.FIRED]
    assert Holding(Hold(steps=5), calm_steps=5).breach(5, 0.0) is HoldChange.FIRED


def test_seconds_are_counted_from_the_first_breach() -> None:
    holding = Holding(Hold(seconds=10.0), calm_steps=1)
    assert [holding.breach(1, t) for t in (100.0, 105.0, 110.0)] == [HoldChange.PENDING, HoldChange.NONE, HoldChange.FIRED]


def test_a_breach_that_ends_early_is_told_once() -> None:
    holding = Holding(Hold(steps=3), calm_steps=1)
    holding.breach(1, 0.0)
    assert [holding.clean(1), holding.clean(1)] == [HoldChange.ENDED, HoldChange.NONE]


def test_firing_resolves_after_unbroken_calm() -> None:
    holding = Holding(Hold(), calm_steps=3)
    holding.breach(1, 0.0)
    assert [holding.clean(1), holding.clean(1)] == [HoldChange.NONE, HoldChange.NONE]
    assert holding.breach(1, 1.0) is HoldChange.NONE
    assert [holding.clean(1) for _ in range(3)] == [HoldChange.NONE, HoldChange.NONE, HoldChange.RESOLVED]
    assert holding.state is HoldState.IDLE


def test_rows_and_conviction_can_be_asked_for() -> None:
    holding = Holding(Hold(), calm_steps=1, rows_min=2)
    assert [holding.breach(9, 0.0), holding.breach(9, 1.0)] == [HoldChange.PENDING, HoldChange.FIRED]
    doubtful = Holding(Hold(), calm_steps=1)
    assert [doubtful.breach(9, 0.0, convincing=False), doubtful.breach(9, 1.0)] == [HoldChange.PENDING, HoldChange.FIRED]


def test_a_negative_hold_is_refused() -> None:
    with pytest.raises(AssertionError, match="negative"):
        Hold(steps=-1)
