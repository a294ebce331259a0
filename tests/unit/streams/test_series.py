"""The attempt's steps in order."""

from __future__ import annotations

import pytest

from sentinel.model.attempts import SampleRange
from sentinel.model.readings import StepReading
from sentinel.streams.series import RING_SIZE, Series
from tests.unit.detectors.bank_kit import BATCH, row


def filled(*steps: int) -> Series:
    series = Series(("loss",))
    for step in steps:
        series.add(row(step, loss=float(step)))
    return series


def test_a_repeated_and_a_late_step_change_nothing_and_are_counted() -> None:
    series = filled(1, 2, 4)
    assert [series.add(row(2, loss=9.0)), series.add(row(3, loss=9.0))] == [0, 0]
    assert (series.repeated, series.late, series.newest_step, len(series)) == (1, 1, 4, 3)
    assert series.newest("loss", 9) == [(1, 1.0), (2, 2.0), (4, 4.0)]


def test_step_zero_is_taken_as_a_first_step_once() -> None:
    series = filled(0, 0, 1)
    assert (len(series), series.repeated) == (2, 1)


def test_a_reading_stands_for_its_interval_and_a_gap_for_no_more() -> None:
    series = Series(("loss",))
    assert [series.add(row(step, loss=1.0)) for step in (5, 10, 15, 20, 25, 30, 500, 505)] == [1, 5, 5, 5, 5, 5, 5, 5]
    assert series.interval_steps == 5


def test_the_ring_is_bounded_and_forgets_the_oldest() -> None:
    series = filled(*range(1, RING_SIZE + 101))
    assert len(series) == RING_SIZE
    assert series.samples_of(100) is None
    assert series.samples_of(101) is not None
    level = series.level("loss", 0)
    assert level is not None
    assert level.count == RING_SIZE


def test_history_is_remembered_and_the_resumed_step_is_the_newest() -> None:
    series = filled(1, 2, 3)
    series.seed([row(step, loss=1.0) for step in (8, 9, 10)], 12)
    assert (series.newest_step, len(series), series.samples_per_step) == (12, 3, BATCH)
    assert series.samples_of(2) is None
    assert series.add(row(12, loss=1.0)) == 0
    assert series.add(row(13, loss=1.0)) == 1


def test_a_level_respects_both_ends_and_unknown_metrics_have_none() -> None:
    series = filled(*range(1, 11))
    level = series.level("loss", 2, 7)
    assert level is not None
    assert (level.median, level.mad, level.count, level.first_step, level.last_step) == (5.0, 1.0, 5, 3, 7)
    assert series.level("loss", 10) is None
    assert series.level("never_logged", 0) is None


def test_without_samples_nothing_is_claimed() -> None:
    assert Series(()).samples_per_step is None


def batch_of(*rows: tuple[int, list[tuple[int, int]]]) -> int | None:
    series = Series(("loss",))
    for step, ranges in rows:
        series.add(StepReading(1, step, 0.0, tuple(SampleRange(*ends) for ends in ranges), {"loss": 1.0}))
    return series.samples_per_step


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(10, [(0, 40)]), (20, [(40, 80)])], id="a row has the samples of all steps since the one before"),
        pytest.param([(10, [(36, 40)]), (20, [(76, 80)])], id="a row has those of its own step"),
        pytest.param([(10, [(0, 40)]), (20, [(40, 80)]), (30, [(100, 140)])], id="something was left out before the newest row"),
        pytest.param([(10, [(0, 40)]), (20, [(40, 80)]), (30, [(80, 120)]), (480, [(120, 160)])], id="steps were left out"),
        pytest.param([(1, [(0, 4)]), (2, [(4, 8)]), (3, [(20, 22), (30, 32)])], id="every step has a row"),
    ],
)
def test_the_batch_of_a_step_is_told_from_rows_of_every_tenth(rows: list[tuple[int, list[tuple[int, int]]]]) -> None:
    assert batch_of(*rows) == 4


def test_before_two_rows_the_batch_is_that_of_the_one_there_is() -> None:
    assert batch_of() is None
    assert batch_of((1, [])) is None
    assert batch_of((1, [(0, 4)])) == 4
