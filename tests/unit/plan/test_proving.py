"""What a receipt and a stream prove of the settings asked for."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.proof import Proof, merge_proofs
from sentinel.plan.proving import (
    Counted,
    RatesBefore,
    ShownRate,
    compare_counts,
    compare_rates,
    first_met,
    grade_settings,
    passed_over,
)

ASKED = SettingsInForce(lr_scale=0.5, clip_norm=0.3, skip=(SampleRange(464, 644),))
SKIP = [[464, 644]]


@pytest.mark.parametrize(
    ("effective", "repeated", "grades"),
    [
        ({"lr_scale": 0.5, "clip_norm": 0.3, "skip": SKIP}, {}, ["read_back"] * 3),
        ({"clip_norm": 0.3}, {"lr_scale": 0.5, "clip_norm": 0.3, "skip": SKIP}, ["asserted", "read_back", "asserted"]),
        ({}, {}, ["none"] * 3),
        ({"lr_scale": 1.0, "clip_norm": 1.0}, {}, ["none"] * 3),
    ],
)
def test_only_what_was_read_back_is_proven(effective: dict[str, Any], repeated: dict[str, Any], grades: list[str]) -> None:
    found = grade_settings(ASKED, effective, repeated)
    assert {proof.key: proof.grade for proof in found} == dict(zip(("lr_scale", "clip_norm", "skip"), grades, strict=True))


def test_what_was_not_asked_needs_no_proof() -> None:
    assert grade_settings(SettingsInForce(), {"lr_scale": 1.0, "skip": []}, {}) == ()


def test_a_newer_grade_takes_the_place_of_the_older() -> None:
    first, other = Proof("skip", "asserted"), Proof("lr_scale", "none")
    assert merge_proofs((first, other), (Proof("skip", "observed"),)) == (Proof("skip", "observed"), other)


def test_the_words_name_the_setting_and_how_it_is_known() -> None:
    assert Proof("lr_scale", "asserted").words == "learning rate: said or passed as an argument, and not seen"
    assert Proof("skip", "observed").words == "samples left out: observed in its stream"


def spans(*pairs: tuple[int, int]) -> tuple[SampleRange, ...]:
    return tuple(SampleRange(*pair) for pair in pairs)


def test_samples_that_were_to_be_left_out_are_met() -> None:
    left_out = spans((100, 120), (464, 644))
    assert first_met(left_out, spans((480, 484))) == SampleRange(480, 484)
    assert first_met(left_out, spans((460, 468))) == SampleRange(464, 468)
    assert first_met(left_out, spans((460, 464), (644, 648))) is None
    assert first_met((), spans((0, 8))) is None


@pytest.mark.parametrize(
    ("behind", "samples", "over"),
    [
        (464, ((644, 648),), True),  # from one step to the next
        (460, ((460, 464), (644, 648)), True),  # within a step
        (500, ((644, 648),), True),  # it resumed within the range
        (460, ((644, 648),), False),  # four more samples are missing: rows of every other step
        (460, ((460, 464),), False),
        (700, ((700, 708),), False),
    ],
)
def test_a_hole_that_the_ranges_fill_was_passed_over(behind: int, samples: tuple[tuple[int, int], ...], over: bool) -> None:
    assert passed_over(spans((100, 120), (464, 644)), behind, spans(*samples)) is over


def test_a_hole_may_be_as_wide_as_the_trainer_says_that_it_leaves_out() -> None:
    skip, announced = spans((464, 644)), spans((463, 645))
    assert passed_over(skip, 463, spans((644, 645)), announced)
    assert passed_over(skip, 464, spans((645, 646)), announced)
    assert not passed_over(skip, 462, spans((645, 646)), announced)
    assert not passed_over(skip, 463, spans((464, 465)), announced), "nothing that was to be left out lies in it"


def counted(step: int, left_out: float | None, batch: float = 8.0) -> Counted:
    return Counted(step, step * batch, left_out or 0.0, left_out is not None)


@pytest.mark.parametrize(
    ("before", "now", "grade"),
    [
        (counted(70, None), counted(100, 20 * 8), "observed"),
        (counted(70, 80), counted(100, 80 + 21 * 8), "observed"),  # one more, as its arguments can mean
        (counted(70, 80), counted(100, 80), "contradicted"),
        (counted(70, None), counted(100, None), None),  # it counts nothing
        (counted(70, 80), counted(100, 80 + 12 * 8), None),
        (counted(70, 80), counted(100, 80 + 30 * 8), None),
        (counted(100, 160), counted(110, 160), None),  # nothing was to be left out there
        (Counted(70, 560.0, 0.0, True), Counted(100, 560.0, 0.0, True), None),
    ],
)
def test_what_a_trainer_counts_shows_what_rows_of_every_tenth_step_do_not(
    before: Counted, now: Counted, grade: str | None
) -> None:
    assert compare_counts(spans((75, 95)), spans((74, 96)), before, now) == grade


@pytest.mark.parametrize(
    ("older", "newer", "after", "factor", "grade"),
    [
        ((49, 1e-3), (50, 1e-3), (51, 5e-4), 0.5, "observed"),
        ((49, 1e-3), (50, 0.99e-3), (51, 4.9e-4), 0.5, "observed"),
        ((49, 1e-3), (50, 1e-3), (51, 1e-3), 0.5, "contradicted"),
        ((49, 5e-4), (50, 5e-4), (51, 1e-3), 2.0, "observed"),
        ((49, 1e-3), (50, 1e-3), (51, 7.5e-4), 0.5, None),  # something else
        ((49, 1e-3), (50, 1e-3), (51, 1e-3), 0.9, None),  # too little to tell from the schedule
        ((1, 1e-4), (2, 2e-4), (3, 2e-4), 0.5, None),  # a steep warm-up
        ((49, 0.0), (50, 0.0), (51, 5e-4), 0.5, None),
        ((49, 1e-3), (50, 1e-3), (51, float("nan")), 0.5, None),
        ((50, 1e-3), (50, 1e-3), (51, 1e-3), 0.5, None),
        # A warm-up of 1e-5 a step goes on: 30 batches left out take it to where the half of it is what was before.
        ((29, 2.9e-4), (30, 3.0e-4), (61, 3.05e-4), 0.5, None),
        ((29, 2.9e-4), (30, 3.0e-4), (33, 1.65e-4), 0.5, "observed"),
        ((29, 2.9e-4), (30, 3.0e-4), (33, 3.3e-4), 0.5, "contradicted"),  # it goes by the schedule alone
        # Rows of every tenth step, in a decay of 4 % from row to row.
        ((40, 1.00e-3), (50, 0.96e-3), (60, 0.46e-3), 0.5, "observed"),
        ((40, 1.00e-3), (50, 0.96e-3), (60, 0.92e-3), 0.5, "contradicted"),
        # Three digits.
        ((49, 2.86e-4), (50, 2.86e-4), (51, 1.43e-4), 0.5, "observed"),
    ],
)
def test_a_learning_rate_shows_a_factor_by_what_it_changed(
    older: tuple[int, float], newer: tuple[int, float], after: tuple[int, float], factor: float, grade: str | None
) -> None:
    assert compare_rates(RatesBefore(ShownRate(*older), ShownRate(*newer), 1.0), ShownRate(*after), factor) == grade


@pytest.mark.parametrize(
    ("asked", "after", "grade"),
    [
        (0.25, 2.5e-4, "observed"),
        (0.25, 5e-4, "contradicted"),  # as before
        (0.25, 1e-3, "contradicted"),  # by its schedule alone
        (0.5, 5e-4, "observed"),  # the same factor, once more
        (0.5, 1e-3, "contradicted"),
        (0.9, 9e-4, None),  # too near to the schedule, to which it may have gone back
        (0.9, 5e-4, "contradicted"),
    ],
)
def test_a_rate_that_ran_under_a_factor_before_tells_whether_the_next_is_in_force(
    asked: float, after: float, grade: str | None
) -> None:
    assert compare_rates(RatesBefore(ShownRate(49, 5e-4), ShownRate(50, 5e-4), 0.5), ShownRate(51, after), asked) == grade
