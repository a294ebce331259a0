"""Quantities are read exactly, and refused with the value and the remedy."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.detectors.hold import Hold
from sentinel.model.price import Price
from sentinel.policy import budget
from sentinel.policy import quantities as q

PARSERS = [
    q.parse_duration, q.parse_positive_duration, q.parse_steps, q.parse_positive_steps, q.parse_hold, q.parse_factor,
    q.parse_widening, q.parse_step_times, q.parse_rate, q.parse_range, q.parse_step_ref, q.parse_recovered_when,
    q.parse_above_band,
]  # fmt: skip


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (q.parse_duration, "30s", 30.0),
        (q.parse_duration, "5m", 300.0),
        (q.parse_duration, "24h", 86400.0),
        (q.parse_duration, "2d", 172800.0),
        (q.parse_duration, "1.5h", 5400.0),
        (q.parse_duration, "5 m", 300.0),
        (q.parse_steps, "200 steps", 200),
        (q.parse_steps, "1 step", 1),
        (q.parse_steps, "0 steps", 0),
        (q.parse_hold, "2 steps", Hold(steps=2)),
        (q.parse_hold, "30s", Hold(seconds=30.0)),
        (q.parse_factor, "0.5x", 0.5),
        (q.parse_widening, "2x", 2.0),
        (q.parse_step_times, "3x step_time", 3.0),
        (q.parse_rate, "12 per 24h", q.Rate(12, 86400.0)),
        (q.parse_range, "5s..5m", (5.0, 300.0)),
        (q.parse_price, "2.5 USD", Price(2.5, "USD")),
        (q.parse_step_ref, "onset - 20 steps", q.StepRef("onset", -20)),
        (q.parse_step_ref, "detected + 200 steps", q.StepRef("detected", 200)),
        (q.parse_step_ref, "onset", q.StepRef("onset", 0)),
        (q.parse_recovered_when, "loss within 2% of pre_incident", q.RecoveredWhen("loss", 0.02)),
        (q.parse_above_band, "above band for 20 steps", 20),
    ],
)
def test_reads(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "value", "message", "remedy"),
    [
        (q.parse_duration, 30, "30 has no unit; a duration was expected", "write it as '30s', '5m' or '2h'"),
        (q.parse_duration, "30 sec", "'30 sec' is not a duration", "write it as '30s', '5m' or '2h'"),
        (q.parse_duration, True, "true is not a duration", "write it as '30s', '5m' or '2h'"),
        (q.parse_positive_duration, "0s", "'0s' is no span at all", "write a duration above zero, such as '30s'"),
        (q.parse_steps, "200", "'200' is not a number of steps", "write it as '200 steps'"),
        (q.parse_steps, "-3 steps", "'-3 steps' is not a number of steps", "write it as '200 steps'"),
        (q.parse_positive_steps, "0 steps", "'0 steps' is no span at all", "write at least '1 step'"),
        (q.parse_hold, "2 stepz", "'2 stepz' is not a number of steps or a duration", "write it as '2 steps' or '30s'"),
        (q.parse_factor, 0.5, "0.5 has no unit; a factor was expected", "write it as '0.5x' or '2x'"),
        (q.parse_factor, "0x", "'0x' is not a factor above zero", "write it as '0.5x' or '2x'"),
        (q.parse_multiple, "1x", "'1x' is no more than usual: every healthy run would be found", "write at least '1.2x'"),
        (q.parse_widening, "1x", "'1x' reaches no further than the rung before", "write a factor above one, such as '2x'"),
        (q.parse_step_times, "3x", "'3x' is not a multiple of the step time", "write it as '3x step_time'"),
        (q.parse_rate, "12 per day", "'12 per day' is not a count per period", "write it as '12 per 24h'"),
        (q.parse_rate, "0 per 1h", "'0 per 1h' allows nothing: count and period must be above zero", "write it as '12 per 24h'"),
        (q.parse_price, "2.5", "'2.5' names no currency", "write it as '2.5 USD', the currency as three capital letters"),
        (q.parse_price, 2.5, "2.5 has no unit; a price with its currency was expected",
         "write it as '2.5 USD', the currency as three capital letters"),
        (q.parse_price, "2.5 usd", "'2.5 usd' is not a price with its currency",
         "write it as '2.5 USD', the currency as three capital letters"),
        (q.parse_price, "0 USD", "'0 USD' is no price",
         "write it as '2.5 USD', the currency as three capital letters; without a price GPU hours alone are told"),
        (q.parse_range, "5m..5s", "'5m..5s' runs backwards", "write the shorter one first: '5s..5m'"),
        (q.parse_range, "5s-5m", "'5s-5m' is not a range of durations", "write it as '5s..5m'"),
        (
            q.parse_step_ref, "start + 3 steps", "'start + 3 steps' is not a step told from the incident",
            "write it as 'onset - 20 steps' or 'detected + 200 steps'",
        ),
        (
            q.parse_recovered_when, "loss is fine", "'loss is fine' is not a condition for recovery",
            "write it as 'loss within 2% of pre_incident'",
        ),
        (
            q.parse_above_band, "20 steps", "'20 steps' is not a condition that ends a wait",
            "write it as 'above band for 20 steps'",
        ),
    ],
)  # fmt: skip
def test_refuses_with_value_and_remedy(parse, value, message, remedy):
    with pytest.raises(q.Malformed) as refused:
        parse(value)
    assert (str(refused.value), refused.value.remedy) == (message, remedy)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = PLAIN | st.lists(st.text()) | st.dictionaries(st.text(), st.none())
NEARLY = st.text(alphabet="0123456789.-+ xsmhd%pertonsicdablvfw_", max_size=40)


@given(st.sampled_from(PARSERS), ANYTHING | NEARLY)
def test_anything_else_is_refused_and_never_raises_otherwise(parse, value):
    try:
        result = parse(value)
    except q.Malformed as refused:
        result = (str(refused) != "", refused.remedy != "")
        assert result == (True, True)
    numbers = result if isinstance(result, tuple) else (result,)
    assert all(math.isfinite(number) for number in numbers if isinstance(number, (int, float)))


@given(st.integers(0, 10**9))
def test_steps_come_back(steps):
    assert q.parse_steps(f"{steps} steps") == steps
    assert q.parse_step_ref(f"onset - {steps} steps") == q.StepRef("onset", -steps)
    assert q.parse_hold(f"{steps} steps") == Hold(steps=steps)


@given(st.integers(1, 10**9), st.sampled_from("smhd"))
def test_durations_come_back(amount, unit):
    seconds = q.parse_duration(f"{amount}{unit}")
    assert seconds == amount * q.SECONDS_IN[unit]
    if seconds < 1e6:  # beyond, %g rounds
        assert q.parse_duration(q.show_duration(seconds)) == seconds


def test_the_examples_in_the_docstrings_hold():
    for module in (q, budget):
        outcome = doctest.testmod(module)
        assert outcome.attempted > 0
        assert outcome.failed == 0


def test_long_values_are_cut():
    assert len(q.show("x" * 5000)) == 60
    assert [q.show(value) for value in (None, True, {}, [], "a", 3)] == ["null", "true", "a mapping", "a list", "'a'", "3"]
