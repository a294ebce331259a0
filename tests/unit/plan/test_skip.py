"""Sample windows: merged, half-open, only growing, and never more than are kept."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.attempts import SampleRange
from sentinel.model.incidents import SampleAnchor
from sentinel.plan.skip import bounded, covers, merge, window

ANCHOR = SampleAnchor(onset=1000, detected=1200, per_step=10)
ranges = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 30)).map(lambda t: SampleRange(t[0], t[0] + t[1])), max_size=25)


def samples(parts: list[SampleRange] | tuple[SampleRange, ...]) -> set[int]:
    return {n for part in parts for n in range(part.start, part.end)}


@given(ranges)
def test_merging_keeps_exactly_the_samples_in_the_fewest_ranges(parts: list[SampleRange]) -> None:
    merged = merge(parts)
    assert samples(merged) == samples(parts)
    assert all(a.end < b.start for a, b in pairwise(merged))
    assert merge(merged) == merged


@given(ranges, st.integers(1, 5))
def test_bounding_never_forgets_a_sample(parts: list[SampleRange], at_most: int) -> None:
    merged = merge(parts)
    few = bounded(merged, at_most)
    assert len(few) <= at_most
    assert samples(merged) <= samples(few)
    assert bounded(merged, 100) == merged


def test_the_narrowest_gap_is_closed_first() -> None:
    parts = (SampleRange(0, 10), SampleRange(30, 40), SampleRange(42, 50))
    assert bounded(parts, 2) == (SampleRange(0, 10), SampleRange(30, 50))


def test_a_window_is_counted_from_the_incident_in_samples() -> None:
    assert window(ANCHOR, ("onset", -4), ("detected", 40), 1.0) == SampleRange(960, 1600)
    assert window(ANCHOR, ("onset", -4), ("detected", 40), 2.0) == SampleRange(920, 2000)
    assert window(ANCHOR, ("onset", -200), ("detected", 1), 1.0) == SampleRange(0, 1210), "never before the first sample"
    assert window(ANCHOR, ("onset", 0), ("onset", 0), 1.0) == SampleRange(1000, 1010), "never empty"


def test_covering_needs_one_range_that_holds_it_all() -> None:
    have = (SampleRange(0, 10), SampleRange(20, 30))
    assert covers(have, SampleRange(20, 30))
    assert not covers(have, SampleRange(5, 25))
