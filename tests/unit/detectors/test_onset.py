"""Dating: which signal an alarm is dated back to, and what dates nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from sentinel.detectors.contract import Creep
from sentinel.detectors.onset import Dated, date_onset
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import StepReading
from sentinel.streams.change_point import find_bend, find_departure, find_growth, find_hinge, find_jump, find_rise, find_settling
from sentinel.streams.series import RING_SIZE, Series
from tests.unit.detectors.bank_kit import feed, make_bank, receipt, row

LAST = 800
METRICS = ("loss", "grad_norm", "activation_norm", "loss_scale")
Change = Callable[[int, float], float]


def series_of(every: int = 1, last: int = LAST, **changes: Change) -> Series:
    """Healthy rows up to LAST, each metric changed by its own rule of (step, healthy value)."""
    dice = random.Random(3)
    series = Series(METRICS)
    for step in range(every, last + 1, every):
        healthy = {
            "loss": 2.5 * (1.0 + dice.gauss(0.0, 0.02)),
            "grad_norm": 0.4 * dice.lognormvariate(0.0, 0.2),
            "activation_norm": 2.0 * dice.lognormvariate(0.0, 0.03),
            "loss_scale": 65536.0,
        }
        series.add(row(step, **{name: changes.get(name, keep)(step, value) for name, value in healthy.items()}))
    return series


def keep(step: int, value: float) -> float:
    return value


def raised(first: int, times: float, last: int = 10**9) -> Change:
    return lambda step, value: value * times if first <= step <= last else value


def alarm(onset: int = LAST - 1, kind: Kind = Kind.SPIKE, metric: str = "loss", detected: int = LAST) -> Finding:
    return Finding(kind, "warning", 1, onset, detected, 0.0, "found", metric=metric)


def dated(series: Series, finding: Finding | None = None, lookback: int = 500, cut: int = 0) -> Dated | None:
    return date_onset(series, finding or alarm(), lookback, cut)


def test_nothing_moved_before_and_the_own_onset_stands() -> None:
    assert dated(series_of(loss=raised(LAST - 1, 2.0))) is None


@pytest.mark.parametrize("before", [2, 6, 20, 100])
def test_a_gradient_that_rose_before_dates_the_spike(before: int) -> None:
    first = LAST - 1 - before
    found = dated(series_of(loss=raised(LAST - 1, 2.0), grad_norm=raised(first, 6.0)))
    assert found is not None
    assert abs(found.step - first) <= 1
    assert found.signal == "grad_norm"
    assert found.reason == f"onset {found.step} by grad_norm, loss followed at {LAST - 1}"


def test_the_earliest_of_several_dates() -> None:
    found = dated(series_of(grad_norm=raised(LAST - 20, 6.0), activation_norm=raised(LAST - 60, 2.0)))
    assert found is not None
    assert (found.step, found.signal) == (LAST - 60, "activation_norm")


def test_a_blip_that_ended_before_dates_nothing() -> None:
    assert dated(series_of(grad_norm=raised(LAST - 40, 20.0, LAST - 30))) is None
    assert dated(series_of(grad_norm=raised(LAST - 12, 1e6, LAST - 12))) is None


def test_a_metric_that_rose_all_along_has_no_start() -> None:
    assert dated(series_of(activation_norm=lambda step, value: value * (1.0 + step / 400))) is None


def test_a_rise_older_than_the_look_back_or_the_last_cut_dates_nothing() -> None:
    series = series_of(grad_norm=raised(LAST - 100, 6.0))
    assert dated(series, lookback=50) is None
    assert dated(series, cut=LAST - 90) is None
    assert dated(series, cut=LAST - 110) is not None


def test_a_rise_too_small_to_matter_dates_nothing() -> None:
    assert dated(series_of(activation_norm=raised(LAST - 60, 1.1))) is None


def test_values_that_are_no_number_count_as_high() -> None:
    found = dated(series_of(grad_norm=raised(LAST - 10, math.nan)))
    assert found is not None
    assert found.step == LAST - 10


def test_the_loss_scale_dates_by_its_first_halving_without_a_return() -> None:
    def falls(step: int, value: float) -> float:
        return value / 2 ** max(0, min(4, 1 + (step - 500) // 60)) if step >= 500 else value

    found = dated(series_of(loss_scale=falls))
    assert found is not None
    assert (found.step, found.signal) == (500, "loss_scale")


def test_a_scale_that_halves_and_doubles_again_dates_nothing() -> None:
    assert dated(series_of(loss_scale=lambda step, value: value / (2.0 if step // 50 % 2 else 1.0))) is None
    assert dated(series_of(loss_scale=lambda step, value: value / (16.0 if 300 < step < 700 else 1.0))) is None


@pytest.mark.parametrize(("kind", "power"), [(Kind.DRIFT, 1), (Kind.DIVERGENCE, 2)])
def test_a_slow_climb_is_dated_anew_by_its_bend(kind: Kind, power: int) -> None:
    first = 650
    series = series_of(loss=lambda step, value: value + 0.6 * (max(0, step - first) / 150) ** power)
    found = dated(series, alarm(onset=first - 90, kind=kind))
    assert found is not None
    assert abs(found.step - first) <= 20
    assert found.signal == "loss"


def test_other_kinds_keep_their_date() -> None:
    series = series_of(grad_norm=raised(LAST - 20, 6.0))
    assert dated(series, alarm(kind=Kind.TOO_GOOD)) is None
    assert dated(series, alarm(kind=Kind.HANG)) is None


@pytest.mark.parametrize(
    ("kind", "since", "cut", "expected"),
    [
        (Kind.DRIFT, 700, 0, 700),
        (Kind.DIVERGENCE, 700, 0, 700),
        (Kind.SPIKE, 700, 0, None),  # a spike is sudden: a norm that creeps beside it need not be its cause
        (Kind.DRIFT, 700, 700, None),  # of another learning rate
        (Kind.DRIFT, 290, 0, None),  # too long ago to be this
    ],
)
def test_a_norm_that_creeps_dates_the_slow_alarm_that_follows(kind: Kind, since: int, cut: int, expected: int | None) -> None:
    series = series_of(loss=lambda step, value: value + 0.005 * max(0, step - 740))  # its own bend is about there
    creeps = (None, Creep("grad_norm", since, LAST))
    without, found = (date_onset(series, alarm(kind=kind), 500, cut, creeping) for creeping in creeps)
    if expected is None:
        assert found == without
    else:
        assert found is not None
        assert (found.step, found.signal) == (expected, "grad_norm")
        assert f"onset {expected} by grad_norm, loss followed at" in found.reason


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ramp", [0, 30, 100])
def test_a_norm_that_jumped_is_not_dated_by_the_lowest_of_its_flat_past(ramp: int, seed: int) -> None:
    """It dated a loss that left its level 290 rows later: the lowest of a hundred medians of noise lies anywhere in them."""
    dice, began = random.Random(f"{seed}/{ramp}"), 640
    series = Series(METRICS)
    noise, height = dice.choice((0.1, 0.2)), dice.uniform(0.4, 1.0)
    for step in range(1, LAST + 1):
        risen = height * min(1.0, max(0, step - began + 1) / max(1, ramp))
        loss = 2.5 + 0.4 * (step >= LAST - 30) + dice.gauss(0.0, 0.02)
        series.add(row(step, loss=loss, grad_norm=0.3 * dice.lognormvariate(0.0, noise) * (1.0 + risen)))
    creep = Creep("grad_norm", began - 200, began + 60 + ramp)
    found = date_onset(series, alarm(LAST - 30, Kind.DIVERGENCE), 500, 0, creep)
    assert found is not None
    assert -50 <= found.step - began <= 45, found


@pytest.mark.parametrize("seed", range(12))
def test_a_norm_that_creeps_for_long_is_dated_where_it_stood_lowest_and_not_in_the_middle_of_its_climb(seed: int) -> None:
    dice, began, ramp = random.Random(seed), 400, 600
    rows = [(step, 0.7 * max(0, step - began) / ramp + dice.gauss(0.0, 0.15)) for step in range(LAST)]
    assert find_departure(rows, began) <= began + 60


@pytest.mark.parametrize("count", [0, 1, 5, 33])
def test_too_short_a_past_dates_nothing(count: int) -> None:
    assert dated(series_of(last=count), alarm(onset=count + 1, detected=count + 1)) is None
    assert find_rise([(step, 1.0) for step in range(count)], -1, log_space=False, relative=0.03) is None
    assert find_bend([(step, 1.0) for step in range(count)], 1) is None


def test_the_series_keeps_more_than_the_longest_look_back_of_the_shipped_policies() -> None:
    assert RING_SIZE >= 500 + 864 + 100


def test_nothing_is_dated_back_beyond_a_resume_or_a_change_of_the_rate() -> None:
    history = tuple(StepReading(1, r.step, r.time_s, r.samples, r.metrics) for r in rows_of(1, 400))
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 0.0)
    bank.receipt(receipt(2, resume_step=400, history=history), 0.0)
    feed(bank, (StepReading(2, r.step, r.time_s, r.samples, r.metrics) for r in rows_of(401, 460, norm=6.0)))
    finding = Finding(Kind.SPIKE, "warning", 2, 461, 461, 0.0, "found", metric="loss")
    found = bank.date_onset(finding)
    assert found is None or found.step > 400


def rows_of(first: int, last: int, norm: float = 1.0) -> list[StepReading]:
    dice = random.Random(first)
    return [
        row(step, loss=2.5 + dice.gauss(0.0, 0.05), grad_norm=0.4 * norm * dice.lognormvariate(0.0, 0.2))
        for step in range(first, last + 1)
    ]


def test_a_signal_that_a_nan_moved_is_no_beginning_of_what_came_later() -> None:
    """A gradient that was no number was left out, and still moved Adam's second moments: a spike was dated back to it, and 52
    steps of good data were skipped."""
    moved = raised(LAST - 55, 3.0)
    hurt = series_of(activation_norm=moved, loss=raised(LAST - 5, 2.0))
    found = dated(hurt, alarm(LAST - 5))
    assert found is not None
    assert (found.step, found.signal) == (LAST - 55, "activation_norm")
    gated = series_of(
        activation_norm=moved, loss=raised(LAST - 5, 2.0), grad_norm=lambda s, v: math.nan if s == LAST - 55 else v
    )
    assert dated(gated, alarm(LAST - 5)) is None


def descending(seed: int, began: int, last: int, hurt: Callable[[int], float]) -> Series:
    """A loss that still descends, with noise of 2 %, and `hurt` of the rows since it began."""
    dice, series = random.Random(seed), Series(METRICS)
    for step in range(1, last + 1):
        loss = (2.1 + 3.4 / (1.0 + step / 60)) * (1.0 + dice.gauss(0.0, 0.02))
        series.add(row(step, loss=loss + (hurt(step - began) if step >= began else 0.0)))
    return series


@pytest.mark.parametrize(("kind", "hurt", "lasts"), [
    (Kind.DRIFT, lambda since: 0.01 * since, 42),
    (Kind.SPIKE, lambda since: 0.02 * 1.2**since, 22),
])  # fmt: skip
def test_what_grows_from_nothing_is_dated_to_within_a_few_rows(kind: Kind, hurt: Callable[[int], float], lasts: int) -> None:
    errors = []
    for seed in range(21):
        began = 240 + 3 * seed
        series, found_late = descending(seed, began, began + lasts, hurt), alarm(began + lasts - 4, kind, detected=began + lasts)
        found = date_onset(series, found_late, 500, 0, well_until=began - 80)
        assert found is not None
        errors.append(abs(found.step - began))
    errors.sort()
    assert errors[10] <= 2, errors
    assert errors[-2] <= 10, errors


def young(seed: int, began: int, last: int, height: float) -> Series:
    """A run that has just come down steeply, noise of 3 %, and a level that jumps and stays."""
    dice, series = random.Random(f"young {seed}"), Series(METRICS)
    for step in range(1, last + 1):
        loss = (2.85 + 2.7 * math.exp(-step / 9)) * (1.0 + dice.gauss(0.0, 0.03))
        series.add(row(step, loss=loss + (height if step >= began else 0.0)))
    return series


@pytest.mark.parametrize("kind", [Kind.DRIFT, Kind.DIVERGENCE])
def test_a_jump_in_a_young_run_is_not_dated_into_its_descent(kind: Kind) -> None:
    """A bend fitted to the steep beginning and the jump together lay 34 to 66 steps before it, in 59 of 59."""
    errors = []
    for seed in range(21):
        began = 71 + 2 * seed
        found_late = alarm(began + 20, kind, detected=began + 29)
        found = date_onset(young(seed, began, began + 29, 0.4), found_late, 500, 0, well_until=10)
        assert found is not None
        errors.append(abs(found.step - began))
    errors.sort()
    assert errors[10] <= 1, errors
    assert errors[-2] <= 5, errors


def test_a_jump_and_a_climb_are_told_apart() -> None:
    jumped = descending(1, 250, 290, lambda since: 0.5).entries("loss", 0)
    climbs = descending(1, 250, 290, lambda since: 0.015 * since).entries("loss", 0)
    fallen = descending(1, 250, 290, lambda since: -0.5).entries("loss", 0)
    assert find_jump(jumped) == 250
    assert find_jump(climbs) is find_jump(fallen) is None
    assert find_jump(jumped[:30]) is find_jump([]) is None


def climbing_rows(seed: int, noise: float = 0.004) -> Series:
    """Flat to step 600, then 3 % up to step 960."""
    dice, series = random.Random(seed), Series(METRICS)
    for step in range(1, 966):
        level = 2.4 * (1.0 + 0.03 * min(max(step - 600, 0) / 360, 1.0))
        series.add(row(step, loss=level * (1.0 + dice.gauss(0.0, noise))))
    return series


@pytest.mark.parametrize("kind", [Kind.DRIFT, Kind.DIVERGENCE])
@pytest.mark.parametrize("seed", range(12))
def test_a_climb_is_not_dated_by_a_jump_that_its_newest_rows_seem_to_make(kind: Kind, seed: int) -> None:
    """A rollback to a little before such a jump would land in the middle of the climb."""
    found = Finding(kind, "warning", 1, 610, 965, 0.0, "found", metric="loss", value=2.465, baseline=2.4)
    date = date_onset(climbing_rows(seed), found, 500, 0, well_until=540)
    assert abs((date.step if date is not None else 610) - 600) <= 70


@pytest.mark.parametrize("hurt", [lambda since: 1.5, lambda since: 1.5 - 0.02 * since, lambda since: 0.0, lambda since: 40.0])
def test_a_jump_is_no_growth(hurt: Callable[[int], float]) -> None:
    for seed in range(20):
        rows = descending(seed, 250, 252 + seed, hurt).entries("loss", 0)
        assert find_growth(rows) is None


def test_growth_needs_its_rows() -> None:
    rows = descending(1, 250, 272, lambda since: 0.02 * 1.2**since).entries("loss", 0)
    assert find_growth(rows) is not None
    assert find_growth(rows[-99:]) is None
    assert find_growth([*rows, (273, math.nan)]) is None
    assert find_hinge(rows[:30]) is None


def test_a_jump_behind_a_level_that_fell_is_no_growth() -> None:
    """A line through the fall went on falling, and the rows above it rose: dated 34 rows early where data had become easier."""
    early = 0
    for seed in range(60):
        dice = random.Random(f"g/{seed}")
        noise, fell = dice.choice((0.01, 0.02, 0.03)), 200 - dice.randint(40, 95)
        easier, risen = dice.uniform(0.05, 0.3), dice.uniform(0.1, 0.5)
        rows = [
            (step, 2.2 * ((1.0 - easier * (step >= fell)) * (1.0 + risen * (step >= 198)) + noise * dice.gauss(0.0, 1.0)))
            for step in range(201)
        ]
        began = find_growth(rows)
        early += began is not None and began < 188
    assert early <= 1


@pytest.mark.parametrize("pace", [20.0, 60.0, 160.0])
def test_a_rise_that_settles_begins_where_it_is_steepest(pace: float) -> None:
    """A square bent to it begins 30 to 80 rows before: a divergence logged every 100 steps was dated 5,000 steps early."""
    dice = random.Random(f"settles/{pace}")
    began = 400
    rows = [
        (i * 100, 2.5 + 6.0 * (i + 10) ** -0.5 + dice.gauss(0.0, 0.03) + 1.5 * (1.0 - math.exp(min(0, began - i) / pace)))
        for i in range(1, began + 68)
    ]
    assert (find_bend(rows, 2) or 0) < (began - 15) * 100
    assert abs((find_settling(rows, 2) or 0) // 100 - began) <= 6  # two deviations of the noise at the flattest


def test_what_climbs_ever_steeper_or_jumps_does_not_settle() -> None:
    dice = random.Random("steeper")
    noise = [dice.gauss(0.0, 0.03) for _ in range(470)]
    for rise in (lambda k: 0.0003 * k * k, lambda k: 0.02 * math.exp(k / 18.0), lambda k: 1.0 if k else 0.0):
        rows = [(i, 2.5 + noise[i] + rise(max(0, i - 400))) for i in range(470)]
        assert find_settling(rows, 2) is None
    assert find_settling(rows[:30], 2) is find_settling([], 2) is None


def test_a_norm_that_wanders_seldom_dates_an_alarm_back() -> None:
    """Neighbouring rows go together (0.97), by 25 %: 22 of 300 such norms were taken for a forerunner of whatever came next."""

    def is_early(seed: int) -> bool:
        dice, drift, rows = random.Random(f"wander/{seed}"), 0.0, []
        for step in range(1, 901):
            drift = 0.97 * drift + math.sqrt(1 - 0.97**2) * dice.gauss(0.0, 1.0)
            rows.append((step, 0.4 * math.exp(0.25 * drift + 0.05 * dice.gauss(0.0, 1.0))))
        rise = find_rise(rows, 400, log_space=True, relative=0.2)
        return rise is not None and rise.step < 890

    assert sum(is_early(seed) for seed in range(300)) <= 9
