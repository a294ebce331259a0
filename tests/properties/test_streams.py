"""Properties of the streams: nothing that a trainer can write poisons, blinds or grows them."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.readings import StepReading
from sentinel.streams.baseline import Baseline
from sentinel.streams.pace import INTERVALS_KEPT, Pace
from sentinel.streams.series import RING_SIZE, Series
from sentinel.streams.window import Window
from tests.unit.detectors.bank_kit import make_bank, row

any_float = st.floats(allow_nan=True, allow_infinity=True)
sane = st.floats(1.0, 3.0)


@given(st.lists(st.one_of(sane, any_float), max_size=300), st.booleans())
def test_no_value_breaks_a_baseline_and_its_level_stays_a_number(values: list[float], log_space: bool) -> None:
    baseline = Baseline(20, 5, 10, log_space=log_space)
    for step, value in enumerate(values, start=1):
        score = baseline.judge(step, value)
        assert score is None or not math.isnan(score.z)
        if score is not None and score.z > 8.0:
            baseline.refuse(step, value)
        else:
            baseline.learn(step, value)
        level = baseline.level()
        assert level is None or (math.isfinite(level.median) and not math.isnan(level.mad))


@given(st.lists(sane, min_size=40, max_size=120), st.data())
def test_non_finite_values_in_between_do_not_change_a_baseline(values: list[float], data: st.DataObject) -> None:
    clean, dirty = Baseline(30, 5, 10, log_space=False), Baseline(30, 5, 10, log_space=False)
    for step, value in enumerate(values, start=1):
        clean.learn(step, value)
        dirty.learn(step, value)
        if data.draw(st.booleans()):
            dirty.learn(step, data.draw(st.sampled_from([math.nan, math.inf, -math.inf])))
    assert clean.level() == dirty.level()
    assert clean.judge(len(values) + 1, 2.5) == dirty.judge(len(values) + 1, 2.5)


@given(st.lists(st.tuples(st.integers(0, 60), any_float), max_size=200))
def test_a_series_takes_each_step_once_in_order_and_counts_the_rest(entries: list[tuple[int, float]]) -> None:
    series = Series(("loss",))
    taken = [step for step, value in entries if series.add(row(step, loss=value))]
    assert taken == sorted(dict.fromkeys(taken))
    assert len(series) == len(taken)
    assert series.repeated + series.late == len(entries) - len(taken)
    assert 1 <= series.interval_steps <= 60


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(sane, st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=150))
def test_repeating_and_replaying_lines_changes_no_finding_and_no_verdict(rows: list[tuple[float, int, int]]) -> None:
    plain, noisy = make_bank(), make_bank()
    history: list[StepReading] = []
    for step, (value, repeats, back) in enumerate(rows, start=1):
        reading = row(step, loss=value)
        history.append(reading)
        found = plain.step(reading, float(step))
        again = list(noisy.step(reading, float(step)))
        for old in [reading] * repeats + history[-back - 1 : -1]:
            again.extend(noisy.step(old, float(step)))
        assert again == list(found)
    assert dict(plain.verdicts()) == dict(noisy.verdicts())
    assert plain.level("loss", 0) == noisy.level("loss", 0)


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(-1e9, 1e9)), max_size=300), st.integers(1, 100), st.integers(1, 20))
def test_a_window_holds_its_span_or_its_minimum_and_its_median_is_one_of_them(
    gaps: list[tuple[int, float]], span: int, least: int
) -> None:
    window = Window(span, least, samples_max=64 if least <= 64 else least)
    step, kept = 0, []
    for gap, value in gaps:
        step += gap
        window.push(step, value)
        kept.append((step, value))
        inside = [v for s, v in kept if s > step - span][-64:]
        expected = inside if len(inside) >= least else [v for _, v in kept][-least:]
        assert len(window) == len(expected)
        assert window.median() == sorted(expected)[len(expected) // 2]


@given(st.lists(st.tuples(st.integers(-5, 50), any_float), max_size=200))
def test_a_pace_is_unknown_or_positive_and_bounded(entries: list[tuple[int, float]]) -> None:
    pace = Pace()
    for step, time_s in entries:
        pace.add(step, time_s)
        known = pace.step_time_s
        assert known is None or 0.0 < known < math.inf
    assert len(pace._intervals) <= INTERVALS_KEPT


@settings(max_examples=3, deadline=None)
@given(st.integers(RING_SIZE, RING_SIZE + 2000))
def test_a_series_is_bounded(count: int) -> None:
    series = Series(("loss",))
    for step in range(1, count + 1):
        series.add(row(step, loss=1.0))
    assert len(series) == len(series._rows) == RING_SIZE
    assert len(series.newest("loss", count)) == RING_SIZE
