"""Hard rows that return in a rhythm are told as such, and what is longer or higher is not one of them."""

from __future__ import annotations

import math
import random

import pytest

from sentinel.model.findings import Finding
from sentinel.streams.hard_rows import HardRows, Hump
from tests.unit.detectors.bank_kit import alarms, feed, make_bank, row

PERIOD, FIRST = 200, 350
RISE, ROWS = 0.25, 3


def rhythm(*starts: int) -> HardRows:
    hard = HardRows()
    for start in starts:
        hard.take(Hump(start, 3, 0.5))
    return hard


@pytest.mark.parametrize(
    ("starts", "hump", "known"),
    [
        ((200, 400), Hump(600, 1, 0.5), False),
        ((200, 400, 600), Hump(800, 1, 0.5), True),
        ((200, 400, 600), Hump(815, 5, 0.75), True),
        ((200, 400, 600), Hump(800, 6, 0.5), False),
        ((200, 400, 600), Hump(800, 1, 0.76), False),
        ((200, 400, 600), Hump(700, 1, 0.5), False),
        ((200, 400, 600), Hump(1000, 1, 0.5), False),
        ((200, 300, 600), Hump(800, 1, 0.5), False),
        ((0, 200, 300, 400), Hump(500, 1, 0.5), True),
    ],
    ids=["two", "three", "moved a little", "longer", "higher", "too early", "one left out", "no rhythm", "a newer rhythm"],
)
def test_a_hump_at_the_distance_of_those_before_is_one_more_of_them(starts: tuple[int, ...], hump: Hump, known: bool) -> None:
    assert rhythm(*starts).knows(hump, 1) is known


@pytest.mark.parametrize(("gap", "row_steps", "known"), [(10_000, 1, True), (10_001, 1, False), (10_001, 2, True)])
def test_what_comes_once_in_ten_thousand_rows_is_told_each_time(gap: int, row_steps: int, known: bool) -> None:
    assert rhythm(gap, 2 * gap, 3 * gap).knows(Hump(4 * gap, 1, 0.5), row_steps) is known


def found(seed: int, every: int, *, worse_from: int = 10_000, longer: int = 0, higher: float = 0.0) -> list[Finding]:
    """Alarms of 2,400 rows with hard rows at each 200th; from one of them on worse ones."""
    draw, bank, rows = random.Random(seed), make_bank(), []
    for number in range(1, 2_400):
        since, worse = (number - FIRST) % PERIOD, number >= worse_from
        hard = number >= FIRST and since < ROWS + (longer if worse else 0)
        healthy = (2.2 + 2.0 * math.exp(-number / 300)) * (1.0 + draw.gauss(0.0, 0.01))
        rise = (RISE + (higher if worse else 0.0)) * draw.uniform(0.9, 1.1)
        rows.append(row(number * every, loss=healthy * (1.0 + rise * hard), grad_norm=0.4 * math.exp(draw.gauss(0.0, 0.15))))
    return alarms(feed(bank, rows))


@pytest.mark.parametrize("every", [1, 10])
def test_hard_rows_in_a_rhythm_are_told_three_times(every: int) -> None:
    for seed in range(6):
        assert [finding.detected_step // every // 50 for finding in found(seed, every)] == [FIRST // 50, 11, 15]


@pytest.mark.parametrize(("longer", "higher", "late"), [(60, 0.0, 5), (0, 0.4, 2)], ids=["longer", "higher"])
def test_what_is_worse_than_the_rhythm_is_found(longer: int, higher: float, late: int) -> None:
    at = FIRST + 6 * PERIOD
    for seed in range(6):
        steps = [finding.detected_step for finding in found(seed, 1, worse_from=at, longer=longer, higher=higher)]
        assert any(at <= step <= at + late for step in steps), steps


def mixture(seed: int, rise_from: int = 10**9) -> list[Finding]:
    """Every tenth row is of harder data, at no equal distances; from one row on the loss stands higher for good."""
    draw = random.Random(seed)
    rows = []
    for number in range(1, 1_401):
        hard = 0.15 * (draw.random() < 0.1) + 0.25 * (number >= rise_from)
        rows.append(row(number * 10, loss=(2.2 + math.exp(-number / 200)) * (1.0 + hard + draw.gauss(0.0, 0.005))))
    return alarms(feed(make_bank(), rows))


def test_hard_rows_that_are_mixed_in_are_told_for_a_while() -> None:
    """Of a tenth of 1,400 rows 98 to 120 were alarms."""
    for seed in range(6):
        assert len(mixture(seed)) <= 16, seed


def test_a_rise_among_them_is_found_as_soon_as_it_lasts_longer() -> None:
    for seed in range(6):
        assert any(1_000 <= finding.detected_step // 10 <= 1_005 for finding in mixture(seed, rise_from=1_000)), seed


def test_eight_seldom_ones_are_no_mixture() -> None:
    hard = HardRows()
    for turn in range(8):
        hard.take(Hump(turn * 50 + 7 * (turn % 2), 1, 0.4))
    assert not hard.knows(Hump(401, 1, 0.4), 1)
