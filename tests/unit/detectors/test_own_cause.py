"""A co-signal that something else moved dates nothing; one that leads by itself still does."""

from __future__ import annotations

import random
from statistics import median

import pytest

from sentinel.detectors.onset import Dated, date_onset
from sentinel.model.findings import Finding, Kind
from sentinel.streams.series import Series
from tests.unit.detectors.bank_kit import row

METRICS = ("loss", "grad_norm", "adam_v_max")
ALARM = 800


def with_moment(seed: int, b2: float, outliers: dict[int, float], lead: int = 0, *, climbs: bool = False) -> Series:
    """Rows up to the alarm, Adam's second moment by its recurrence. `outliers`: step -> how many times too large the gradient
    was; `lead`: so many steps before the alarm the gradient rises for good."""
    dice, series, moment = random.Random(f"{seed}/{b2}"), Series(METRICS), 0.2
    for step in range(1, ALARM + 10):
        norm = 0.4 * dice.lognormvariate(0.0, 0.2) * outliers.get(step, 1.0) * (6.0 if step >= ALARM - lead else 1.0)
        moment = b2 * moment + (1.0 - b2) * norm * norm
        since = max(0, step - min(outliers)) if climbs else 0
        loss = 2.5 + 2.0 * (step >= ALARM) + dice.gauss(0.0, 0.02)
        series.add(row(step, loss=loss, grad_norm=norm, adam_v_max=moment + 0.05 * since))
    return series


def dated(series: Series) -> Dated | None:
    found = Finding(Kind.SPIKE, "warning", 1, ALARM, ALARM + 2, 0.0, "found", metric="loss")
    return date_onset(series, found, 500, 0)


@pytest.mark.parametrize("b2", [0.95, 0.99, 0.999])
@pytest.mark.parametrize("gap", [10, 30, 60, 150])
def test_one_gradient_far_too_large_dates_no_later_spike_by_the_moment_that_keeps_it(b2: float, gap: int) -> None:
    for seed in range(5):
        found = dated(with_moment(seed, b2, {ALARM - gap: 12.0}))
        assert found is None or found.step >= ALARM - 4, f"seed {seed}: {found}"


def test_two_rows_far_too_large_date_none_either() -> None:
    assert dated(with_moment(1, 0.99, {ALARM - 40: 12.0, ALARM - 39: 9.0})) is None


@pytest.mark.parametrize("b2", [0.95, 0.99])
@pytest.mark.parametrize("lead", [10, 30, 60])
def test_a_gradient_that_rises_for_good_still_dates_the_spike(b2: float, lead: int) -> None:
    errors = []
    for seed in range(5):
        found = dated(with_moment(seed, b2, {ALARM - lead: 2.0}, lead))
        assert found is not None
        errors.append(abs(found.step - (ALARM - lead)))
    assert median(errors) <= 2


def test_a_moment_that_climbs_on_after_the_outlier_has_more_than_that_cause() -> None:
    """One tensor's moment climbs on, and the norm over all of them does not show it."""
    found = dated(with_moment(1, 0.99, {ALARM - 40: 12.0}, climbs=True))
    assert found is not None
    assert abs(found.step - (ALARM - 40)) <= 1


def test_an_outlier_just_before_the_alarm_is_no_cause_apart() -> None:
    found = dated(with_moment(1, 0.99, {ALARM - 4: 12.0}))
    assert found is not None
    assert found.step == ALARM - 4


def with_a_moment_of_its_own(mode: str, seed: int, b2: float) -> tuple[Series, int]:
    """Adam's second moment moves a drawn number of steps before the alarm, and the gradient norm shows nothing of it. blip: for a
    few rows; decays: in one row, and wears down since; stays: for good. The step as well."""
    dice, series, moment = random.Random(f"{mode}/{seed}/{b2}"), Series(METRICS), 0.17
    began, rows, times = ALARM - dice.choice((20, 40, 60, 100)), dice.choice((1, 3, 5)), dice.uniform(1.6, 4.0)
    for step in range(1, ALARM + 10):
        norm = 0.4 * dice.lognormvariate(0.0, 0.2)
        moment = (b2 * moment + (1.0 - b2) * norm * norm) * (times if mode == "decays" and step == began else 1.0)
        is_high = (mode == "blip" and began <= step < began + rows) or (mode == "stays" and step >= began)
        loss, told = 2.5 + 2.0 * (step >= ALARM) + dice.gauss(0.0, 0.02), moment * (times if is_high else 1.0)
        series.add(
            row(step, loss=loss, grad_norm=norm, adam_v_max=told * dice.lognormvariate(0.0, 0.03 if mode == "stays" else 0.0))
        )
    return series, began


@pytest.mark.parametrize("mode", ["blip", "decays", "stays"])
def test_a_moment_that_only_wears_down_dates_nothing_and_one_that_stays_high_does(mode: str) -> None:
    """20 of each: median error of the date 2 steps at most, of 95 in a hundred 10 at most."""
    errors = []
    for seed in range(20):
        series, began = with_a_moment_of_its_own(mode, seed, (0.95, 0.99, 0.999)[seed % 3])
        found = dated(series)
        errors.append(abs((ALARM if found is None else found.step) - (began if mode == "stays" else ALARM)))
    errors.sort()
    assert errors[10] <= 2
    assert errors[18] <= 10
