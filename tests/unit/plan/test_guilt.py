"""Who is guilty: random bytes and milder poison are found to the sample, hard text convicts nobody, broken numbers do no harm."""

from __future__ import annotations

import random
from math import inf, isfinite, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.attempts import SampleRange
from sentinel.model.records import SampleSeen
from sentinel.plan.sample_attribution import CONTROLS, RANGES_MAX, attribute_samples, rank_samples

START, END = 10_000, 10_700
SUSPECT = SampleRange(START, END)


def text(seed: int = 1, spread: float = 0.4, controls: int = CONTROLS) -> dict[int, SampleSeen]:
    """Samples like those of real text: losses scatter by 0.4 nats with a heavier upper tail (5.4 spreads were seen in ten
    thousand, 6 come here), norms by a factor."""
    dice = random.Random(seed)
    found = {}
    for index in range(START - controls, END):
        loss = 2.8 + spread * dice.gauss(0.0, 1.0) + (min(1.2, dice.expovariate(3.0)) if dice.random() < 0.05 else 0.0)
        found[index] = SampleSeen(index, loss, 0.6 * 2.0 ** dice.gauss(0.0, 0.4), "a.py", 128 * (index - START + controls))
    return found


def poisoned(seen: dict[int, SampleSeen], first: int, behind: int, loss: float, scatter: float = 0.3) -> dict[int, SampleSeen]:
    dice = random.Random(first)
    bad = {i: SampleSeen(i, loss + scatter * dice.gauss(0.0, 1.0), 2.0, "a.py", 0) for i in range(first, behind)}
    return seen | bad


def judged(seen: dict[int, SampleSeen]) -> tuple[str, list[tuple[int, int]]]:
    found = attribute_samples(seen.values(), SUSPECT, 7)
    return found.verdict, [(span.start, span.end) for span in found.ranges]


@pytest.mark.parametrize("seed", range(20))
def test_healthy_text_convicts_nobody(seed: int) -> None:
    assert judged(text(seed)) == ("nobody", [])
    assert judged(text(seed, controls=0)) == ("nobody", [])


def test_random_bytes_are_found_to_the_sample() -> None:
    seen = poisoned(poisoned(text(), 10_100, 10_140, 7.5), 10_300, 10_301, 7.9)
    assert judged(seen) == ("guilty", [(10_100, 10_140), (10_300, 10_301)])
    found = attribute_samples(seen.values(), SUSPECT, 7)
    assert (found.attempt, found.suspect, found.guilty, found.inspected) == (7, SUSPECT, 41, 700)
    assert "41 of 700 samples are guilty" in found.reason


def test_a_stretch_is_found_where_no_sample_of_it_stands_out() -> None:
    """Thirty per cent garbage: 1 to 6 spreads, as hard text has them, but forty of them side by side."""
    ((first, behind),) = judged(poisoned(text(), 10_200, 10_240, 4.4, scatter=0.4))[1]
    assert abs(first - 10_200) <= 1
    assert abs(behind - 10_240) <= 1


def test_good_samples_between_two_stretches_are_not_guilty() -> None:
    seen = poisoned(poisoned(text(), 10_100, 10_140, 7.5), 10_160, 10_200, 7.5)
    assert judged(seen)[1] == [(10_100, 10_140), (10_160, 10_200)]


def test_more_than_half_of_the_window_may_be_poison_where_good_samples_stand_before_it() -> None:
    assert judged(poisoned(text(), 10_050, 10_600, 7.5))[1] == [(10_050, 10_600)]


def test_what_lies_before_the_window_is_only_compared_with() -> None:
    seen = text()
    seen[START - 5] = SampleSeen(START - 5, 50.0, 9.0)
    assert judged(seen) == ("nobody", [])


def test_numbers_that_are_not_finite_convict() -> None:
    seen = text()
    seen[10_010] = SampleSeen(10_010, nan, 1.0)
    seen[10_020] = SampleSeen(10_020, 2.8, inf)
    assert judged(seen)[1] == [(10_010, 10_011), (10_020, 10_021)]


def test_a_gradient_convicts_alone_only_when_it_is_enormous() -> None:
    seen = text()
    seen[10_010] = SampleSeen(10_010, 2.9, 0.6 * 10)
    seen[10_020] = SampleSeen(10_020, 2.9, 0.6 * 40)
    assert judged(seen)[1] == [(10_020, 10_021)]


def test_a_trainer_may_leave_the_gradient_out() -> None:
    seen = {i: SampleSeen(i, one.loss) for i, one in poisoned(text(), 10_100, 10_140, 7.5).items()}
    assert judged(seen)[1] == [(10_100, 10_140)]


def test_data_that_is_all_the_same_convicts_nobody() -> None:
    assert judged({i: SampleSeen(i, 2.0 + 1e-9 * (i % 2), 1.0) for i in range(START, END)}) == ("nobody", [])


def test_nothing_seen_is_no_answer() -> None:
    assert attribute_samples((), SUSPECT, 7).verdict == "failed"
    assert attribute_samples([SampleSeen(1, 2.0)], SUSPECT, 7).verdict == "failed"


def test_the_worst_come_first_and_every_guilty_one_before_the_others() -> None:
    ranked = rank_samples(poisoned(text(), 10_100, 10_110, 7.5).values(), SUSPECT)
    assert [one.guilty for one in ranked] == [True] * 10 + [False] * 690
    scores = [one.score for one in ranked[10:]]
    assert scores == sorted(scores, reverse=True)
    assert all(one.why for one in ranked[:10])


numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-1e3, 1e3))
samples = st.builds(SampleSeen, st.integers(START - 300, END + 50), numbers, st.none() | numbers)


@settings(deadline=None)
@given(st.lists(samples, max_size=400))
def test_whatever_is_written_the_answer_is_bounded_and_within_the_window(seen: list[SampleSeen]) -> None:
    found = attribute_samples(seen, SUSPECT, 7)
    assert len(found.ranges) <= RANGES_MAX
    assert all(START <= span.start < span.end <= END for span in found.ranges)
    assert (found.verdict == "guilty") == bool(found.ranges) == (found.guilty > 0)
    inside = {one.index for one in seen if START <= one.index < END}
    assert {one.sample.index for one in rank_samples(seen, SUSPECT)} == inside
    assert all(isfinite(one.score) or one.guilty for one in rank_samples(seen, SUSPECT))


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_in_which_ranks_wrote_does_not_matter(dice: random.Random) -> None:
    seen = list(poisoned(text(), 10_100, 10_140, 7.5).values())
    shuffled = list(seen)
    dice.shuffle(shuffled)
    assert attribute_samples(shuffled, SUSPECT, 7) == attribute_samples(seen, SUSPECT, 7)
