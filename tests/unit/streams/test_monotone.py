"""Rank tests against values worked out by hand, and against their definitions."""

from __future__ import annotations

import math
import random

import pytest

from sentinel.streams.monotone import mann_kendall, mann_whitney, median, theil_sen


def test_mann_kendall_by_hand() -> None:
    """Ten rising values: S is 45, its variance 125."""
    assert mann_kendall(range(10)) == pytest.approx(44 / math.sqrt(125))
    assert mann_kendall(range(10, 0, -1)) == pytest.approx(-44 / math.sqrt(125))
    assert mann_kendall([1, 1, 1, 1]) == 0.0
    assert mann_kendall([1]) == mann_kendall([]) == 0.0
    # 1 2 2 3: five pairs rise, one is tied; the variance is (4 * 3 * 13 - 2 * 1 * 9) / 18
    assert mann_kendall([1, 2, 2, 3]) == pytest.approx(4 / math.sqrt(138 / 18))


def test_mann_kendall_is_its_definition() -> None:
    """An S of one is less than the correction for continuity."""
    for seed in range(20):
        dice = random.Random(seed)
        values = [float(dice.randrange(6)) for _ in range(dice.randrange(2, 40))]
        s = sum((b > a) - (b < a) for at, a in enumerate(values) for b in values[at + 1 :])
        assert math.copysign(1.0, mann_kendall(values)) == math.copysign(1.0, s) or abs(s) <= 1


def test_mann_whitney_by_hand() -> None:
    """Five values above five others: U is 25, as against 12.5; its variance is 25 * 11 / 12."""
    assert mann_whitney(range(5), range(5, 10)) == pytest.approx(24 / (2 * math.sqrt(25 * 11 / 12)))
    assert mann_whitney([1, 2], [1, 2]) == mann_whitney([1], [1]) == 0.0
    assert mann_whitney(range(5, 10), range(5)) < -2.0


def test_theil_sen_does_not_feel_an_outlier() -> None:
    places = [float(place) for place in range(20)]
    values = [3.0 + 0.5 * place for place in places]
    values[7] = 1e6
    assert theil_sen(places, values) == pytest.approx(0.5)
    assert theil_sen([1.0, 1.0], [1.0, 2.0]) == 0.0
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
