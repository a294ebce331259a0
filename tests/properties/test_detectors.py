"""What must blind no detector: one NaN, one absurd value, a restart, a missing metric, rows repeated or out of order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import alarms, clean_run, feed, hurt, make_bank, receipt, row

SPIKE_AT, LAST = 600, 640
CLEAN = tuple(clean_run(LAST, 1, noise=0.02))
SPIKED = tuple(hurt(CLEAN, SPIKE_AT, SPIKE_AT + 20, loss=2.0))
SLOW = (Kind.DRIFT, Kind.DIVERGENCE, Kind.TOO_GOOD, Kind.LOSS_SCALE_COLLAPSE)

places = st.integers(300, SPIKE_AT - 5)
few = settings(max_examples=25, deadline=None)


def spikes(found: Sequence[Finding]) -> list[int]:
    return [f.onset_step for f in alarms(found) if f.kind is Kind.SPIKE and f.onset_step is not None]


def with_row(rows: Sequence[StepReading], step: int, **metrics: float) -> list[StepReading]:
    return [row(step, **metrics) if reading.step == step else reading for reading in rows]


@few
@given(places, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_one_value_that_is_no_number_blinds_nothing(step: int, value: float) -> None:
    found = feed(make_bank(), with_row(SPIKED, step, loss=value, grad_norm=value))
    assert spikes(found) == [SPIKE_AT]
    assert not [f for f in found if f.kind in SLOW]


@few
@given(places, st.sampled_from([50.0, 1e4, 1e30, -50.0]))
def test_one_absurd_value_blinds_nothing_and_is_no_alarm(step: int, value: float) -> None:
    reading = SPIKED[step - 1]
    found = feed(make_bank(), with_row(SPIKED, step, loss=reading.metrics["loss"] + value, grad_norm=0.4))
    assert spikes(found) == [SPIKE_AT]
    assert len(alarms(found)) == 1


@few
@given(places, st.integers(1, 5))
def test_a_metric_that_is_missing_for_a_while_blinds_nothing(step: int, count: int) -> None:
    rows = [row(r.step, grad_norm=0.4) if step <= r.step < step + count else r for r in SPIKED]
    assert spikes(feed(make_bank(), rows)) == [SPIKE_AT]


@few
@given(st.lists(st.tuples(places, st.integers(1, 60)), max_size=6))
def test_rows_that_are_repeated_or_late_change_nothing(again: list[tuple[int, int]]) -> None:
    rows: list[StepReading] = []
    for reading in SPIKED:
        rows.append(reading)
        for step, back in again:
            if reading.step == step:
                rows += SPIKED[max(0, step - back) : step]
    assert [f.key for f in feed(make_bank(), rows)] == [f.key for f in feed(make_bank(), SPIKED)]


@few
@given(st.integers(320, SPIKE_AT - 60))
def test_a_restart_with_its_history_blinds_nothing(step: int) -> None:
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 1000.0)
    bank.receipt(receipt(2, resume_step=step, history=CLEAN[:step]), 1000.0)
    rows = [StepReading(2, r.step, r.time_s, r.samples, r.metrics) for r in SPIKED[step:]]
    assert spikes([f for r in rows for f in bank.step(r, 1000.0 + r.step)]) == [SPIKE_AT]


@few
@given(st.integers(0, 10_000), st.sampled_from([1, 5, 100]), st.floats(0.005, 0.05))
def test_a_healthy_run_raises_no_alarm_whatever_its_seed_interval_and_noise(seed: int, every: int, noise: float) -> None:
    assert alarms(feed(make_bank(), clean_run(900 * every, seed, every=every, noise=noise))) == []


@pytest.mark.parametrize(("climb", "kinds"), [(0.002, {Kind.DRIFT}), (0.01, {Kind.DRIFT, Kind.SPIKE})])
def test_holes_of_nan_do_not_hide_a_slow_climb(climb: float, kinds: set[Kind]) -> None:
    rows = []
    for reading in clean_run(1400, 3, noise=0.01):
        loss = reading.metrics["loss"] + climb * max(0, reading.step - 1000)
        rows.append(row(reading.step, loss=math.nan if reading.step % 7 == 0 else loss))
    found = [f for f in alarms(feed(make_bank(), rows)) if f.kind is not Kind.NON_FINITE]
    assert found[0].kind in kinds
    assert 1000 < found[0].detected_step <= 1100
