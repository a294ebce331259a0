"""What a relaunch trains again is known only as finely as rows are written: a bound, or unknown, never a 0 that nobody saw."""

from __future__ import annotations

import pytest

from sentinel.model import facts as f
from sentinel.model.amounts import lost_words
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import SourceReading
from tests.builders import Bench, build_policy


def rows(bench: Bench, first: int, last: int, every: int) -> Bench:
    for step in range(first, last + 1, every):
        bench.step(step)
    return bench


def lost(bench: Bench) -> tuple[int, int | None]:
    return bench.incident.steps_lost, bench.incident.steps_lost_at_most


def test_a_row_for_each_step_tells_exactly() -> None:
    bench = Bench().launched().steps(1, 50).checkpoint(50).steps(51, 60).exits(signal=9).launched()
    assert lost(bench) == (10, 10)


@pytest.mark.parametrize(
    ("saved", "died", "least", "most"),
    [
        (50, 100, 50, 59),  # it died with step 100 to 109
        (100, 100, 0, 9),  # that it had just saved proves nothing of what came behind
        (105, 100, 0, 4),
    ],
)
def test_of_rows_every_tenth_step_a_bound_is_known(saved: int, died: int, least: int, most: int) -> None:
    bench = rows(Bench().launched(), 10, saved, 10).checkpoint(saved)
    rows(bench, (saved // 10 + 1) * 10, died, 10).exits(signal=9).launched()
    assert bench.of(f.StepsLost)[-1] == f.StepsLost(1, least, most - least)
    assert lost(bench) == (least, most)
    bench.exits(signal=9).launched()  # again, before its first row
    assert bench.of(f.StepsLost)[-1].unseen == 9


def test_one_row_alone_tells_how_far_it_lies_from_the_beginning() -> None:
    bench = Bench().launched()
    bench.step(10)
    assert lost(bench.exits(signal=9).launched()) == (10, 19)


def test_a_trainer_under_a_profile_of_which_no_row_was_ever_seen_may_have_lost_any_number() -> None:
    bench = Bench(settable=()).launched(receipt=False).beat("idle").exits(signal=9).launched(receipt=False)
    assert lost(bench) == (0, None)
    assert bench.incident.may_have_lost_steps


def test_behind_rows_that_a_logger_wrote_in_a_block_nobody_knows() -> None:
    bench = rows(Bench(settable=(), rows_late=True).launched(), 5, 100, 5).checkpoint(100).exits(signal=9).launched()
    assert lost(bench) == (0, None)
    assert bench.incident.may_have_lost_steps
    bench = rows(Bench(settable=(), rows_late=True).launched(), 5, 100, 5).checkpoint(50).exits(signal=9).launched()
    assert lost(bench) == (50, None)


def test_a_trainer_with_the_client_that_dies_before_its_first_row_says_where_it_was() -> None:
    bench = Bench().launched().beat("forward", step=1).exits(signal=9).launched()
    assert lost(bench) == (0, 0)
    bench = Bench().launched().beat("forward", step=40).exits(signal=9).launched()
    assert lost(bench) == (0, 39)


def test_behind_a_stream_that_cannot_be_read_nobody_knows() -> None:
    bench = Bench().launched().steps(1, 50).checkpoint(50).steps(51, 60)
    bench.tell(SourceReading("metrics", False, "permission denied"))
    assert lost(bench.exits(signal=9).launched()) == (10, None)


def test_what_one_relaunch_does_not_know_the_sum_does_not_either() -> None:
    bench = Bench(build_policy()).launched().steps(1, 50).checkpoint(50).steps(51, 60).exits(signal=9).launched()
    assert bench.incident.state is IncidentState.PROBATION
    bench.tell(SourceReading("metrics", False, "permission denied"))
    bench.exits(signal=9).launched()
    assert lost(bench) == (10, None)


@pytest.mark.parametrize(
    ("steps", "unseen", "words"),
    [
        (1, 0, "1 step"),
        (32, 0, "32 steps"),
        (90, 9, "90 to 99 steps"),
        (0, 9, "up to 9 steps"),
        (0, 1, "up to 1 step"),
        (90, None, "at least 90 steps"),
        (0, None, "an unknown number of steps"),
    ],
)
def test_how_it_is_told(steps: int, unseen: int | None, words: str) -> None:
    assert lost_words(steps, unseen) == words
