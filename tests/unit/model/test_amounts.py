"""A length of time in words: one wording, whoever tells it."""

from __future__ import annotations

import math
import random

import pytest

from sentinel.model.amounts import time_words

LENGTHS = {
    "0 s": 0.0, "0.02 s": 0.02, "0.13 s": 0.125, "1 s": 0.96, "1.3 s": 1.25, "10 s": 9.96, "40 s": 40.2, "119 s": 119.4,
    "2 min": 119.5, "4 min 30 s": 270, "11 min 32 s": 692, "59 min 59 s": 3599, "1 h": 3600, "2 h 5 min": 7531,
    "23 h 59 min": 86399, "1 day": 86400, "3 days 4 h": 273_700, "40 days": 40 * 86400 + 60,
}  # fmt: skip


@pytest.mark.parametrize("words", LENGTHS)
def test_seconds_below_two_minutes_then_the_two_largest_units(words: str) -> None:
    assert time_words(LENGTHS[words]) == words


def test_what_is_no_length_is_told_as_such() -> None:
    assert [time_words(seconds) for seconds in (math.inf, math.nan, -3.0)] == ["an unknown time", "an unknown time", "0 s"]


def test_no_longer_time_has_words_of_a_shorter_one() -> None:
    """Read back, words never go down while the time goes up, and none is off by more than its smallest unit."""
    units = {"s": 1, "min": 60, "h": 3600, "day": 86400, "days": 86400}
    drawn = random.Random(3)
    read = []
    for seconds in sorted(10 ** drawn.uniform(-3, 7) for _ in range(3000)):
        words = time_words(seconds).split()
        parts = [(float(count), units[unit]) for count, unit in zip(words[::2], words[1::2], strict=True)]
        told = sum(count * unit for count, unit in parts)
        small = {1: 1, 60: 1, 3600: 60, 86400: 3600}[parts[0][1]]
        assert abs(told - seconds) <= small, (seconds, words)
        read.append(told)
    assert read == sorted(read)
