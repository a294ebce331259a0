import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.client import as_float, dumps, loads

numbers = st.floats() | st.integers(-(2**60), 2**60)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def spelled(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    return value


@given(documents)
def test_everything_written_is_strict_json_on_one_line_and_reads_back(document):
    text = dumps(document)
    assert "\n" not in text
    assert text.isascii()
    assert json.loads(text, parse_constant=lambda word: pytest.fail(f"bare {word}")) == spelled(document)
    assert loads(text) == spelled(document)


@given(st.floats())
def test_every_float_survives_the_round_trip(number):
    back = as_float(loads(dumps({"x": number}))["x"])
    assert back == number or (math.isnan(back) and math.isnan(number))


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "{", "", b"\xff", "[" * 200_000], ids=range(7))
def test_what_is_not_strict_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        loads(text)


@pytest.mark.parametrize("value", ["nan", "inf", "1.5", "", None, True, [], {}, 10**400])
def test_as_float_takes_only_numbers_and_the_three_words(value):
    with pytest.raises(ValueError):
        as_float(value)
