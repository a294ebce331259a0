"""The order of a plan's actions, and when a metric is back where it was."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, nan

import pytest

from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.incidents import Band
from sentinel.plan.build import build_live_change, build_relaunch
from sentinel.plan.verdict import Fall, Peak, judge_band, measure_fall, rows_to_tell

POINT = ResumePoint(50, "p50")


@pytest.mark.parametrize(
    ("incident", "old", "alive", "resume", "keys"),
    [
        (None, None, False, None, ["start/2"]),
        (None, 1, False, POINT, ["verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, False, POINT, ["capture/3/2", "verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, True, POINT, ["capture/3/2", "kill/1", "verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, True, None, ["capture/3/2", "kill/1", "quarantine/2", "start/2"]),
    ],
)
def test_evidence_first_then_the_kill_then_what_is_resumed_from(
    incident: int | None, old: int | None, alive: bool, resume: ResumePoint | None, keys: list[str]
) -> None:
    actions = build_relaunch(
        incident=incident, old_attempt=old, is_alive=alive, new_attempt=2, resume=resume, overrides=SettingsInForce("ov-2"),
        not_before_s=7.0, reason="why",
    )  # fmt: skip
    assert [action.key for action in actions] == keys
    assert actions[-1].not_before_s == 7.0  # type: ignore[union-attr]


def test_a_live_change_is_one_write_under_the_name_of_its_settings() -> None:
    (write,) = build_live_change(3, SettingsInForce("ov-3.2"), 40)
    assert (write.key, write.attempt) == ("override/ov-3.2", 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("now", "before", "ratio", "within"),
    [
        (Band("loss", 2.03, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, True),
        (Band("loss", 2.05, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", 1.0, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, True),
        (Band("loss", 2.05, 0.0, 12), Band("loss", 2.0, 0.05, 40), 0.02, True),  # finer than the noise of twelve values
        (Band("loss", 2.0, 0.0, 9), Band("loss", 2.0, 0.05, 40), 0.02, False),  # unknown: too few since
        (Band("loss", 2.0, 0.0, 50), Band("loss", 2.0, 0.05, 9), 0.02, False),  # unknown: too few before
        (Band("loss", 2.05, 9.0, 400), Band("loss", 2.0, 0.005, 40), 0.02, False),  # a sick scatter widens nothing
        (Band("loss", nan, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", inf, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", 2.0, 0.0, 0), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", -1.99, 0.0, 50), Band("loss", -2.0, 0.0, 50), 0.02, True),
    ],
)
def test_back_in_the_band(now: Band, before: Band, ratio: float, within: bool) -> None:
    verdict = judge_band(now, before, ratio)
    assert verdict.is_within is within
    assert "loss" in verdict.reason


def test_few_rows_are_unknown_unless_they_need_not_be_many_to_stand_above() -> None:
    before = Band("loss", 2.0, 0.02, 50)
    high, back = Band("loss", 3.0, 0.0, 4), Band("loss", 2.0, 0.0, 4)
    assert judge_band(high, before, 0.02).stands == "unknown"
    assert judge_band(high, before, 0.02, rows_above=4).stands == "above"
    assert judge_band(back, before, 0.02, rows_above=4).stands == "unknown"
    assert judge_band(Band("loss", inf, inf, 1), before, 0.02).stands == "above", "that is no question of noise"
    for now, then in ((None, before), (Band("loss", 2.0, 0.0, 0), before), (back, None)):
        verdict = judge_band(now, then, 0.02)
        assert (verdict.stands, verdict.is_known) == ("unknown", False)


@pytest.mark.parametrize(
    ("noise", "known", "rows"),
    [(0.002, 50, 10), (0.02, 50, 12), (0.04, 200, 40), (0.04, 10, 40), (0.2, 200, 40)],
)
def test_the_noisier_a_metric_the_more_rows_tell_whether_it_is_back(noise: float, known: int, rows: int) -> None:
    """Noise as a share of the level, of normal data: its MAD is two thirds of it."""
    assert rows_to_tell(Band("loss", 2.0, 2.0 * noise / 1.4826, known), 0.02) == rows


def test_few_rows_are_enough_of_what_has_no_noise_and_where_much_is_tolerated() -> None:
    assert rows_to_tell(None, 0.02) == rows_to_tell(Band("loss", 2.0, 0.0, 50), 0.02) == 10
    assert rows_to_tell(Band("loss", 2.0, 0.05, 200), 0.2) == 10


def test_what_only_went_on_falling_has_not_come_back() -> None:
    """It was falling by 0.1 in 67 steps, rose from 2.6 to 2.8, and 200 steps later stands at 2.62 by its descent alone."""
    before = Band("loss", 2.6, 0.005, 55, 300, 0.1, 67)
    stays, peak = Band("loss", 2.62, 0.005, 40, 500), Peak(301, 2.8)
    assert judge_band(stays, before, 0.02).is_within
    verdict = judge_band(stays, before, 0.02, peak)
    assert verdict.stands == "above"
    assert "has not come back" in verdict.reason
    assert judge_band(Band("loss", 2.62, 0.005, 40, 340), before, 0.02, peak).is_within, "so soon no descent explains it"
    assert judge_band(stays, Band("loss", 2.6, 0.005, 55), 0.02, peak).is_within, "one that was not falling has come back"


def test_the_fall_of_rows_is_that_between_their_outer_thirds() -> None:
    rows = [(step, 4.0 - 0.01 * step) for step in range(0, 900, 10)]
    fall = measure_fall(rows)
    assert fall.size / fall.steps == pytest.approx(0.01)
    assert fall.lasting == pytest.approx(1.0)
    assert measure_fall(rows[:29]) == Fall(), "too few"
    assert measure_fall([(step, -value) for step, value in rows]) == Fall()
    assert measure_fall([(step, nan) for step, _ in rows]) == Fall()


def test_a_fall_that_flattens_lasts_by_as_much_as_an_exponential_does() -> None:
    """Thirds of 100 rows of exp(-n / 100)."""
    rows = [(step, exp(-step / 100.0)) for step in range(300)]
    assert measure_fall(rows).lasting == pytest.approx(exp(-1.0), abs=0.01)
    assert 0.0 < measure_fall(rows, noise=0.3).lasting < exp(-1.0), "no more than the noise allows"
    assert measure_fall(rows, noise=3.0).lasting == 0.0, "the noise hides it"


def test_what_stays_above_its_own_descent_has_not_healed() -> None:
    """It fell by 0.2 in 200 steps, half as much in each hundred, rose from 2.6 to 3.4 and fell back to 8 % above where it would
    be: 300 steps later that is the level before the incident."""
    before, peak = Band("loss", 2.6, 0.005, 55, 300, 0.2, 200, 0.5), Peak(301, 3.4)
    stays = Band("loss", 2.62, 0.005, 40, 600)
    verdict = judge_band(stays, before, 0.02, peak)
    assert verdict.stands == "above"
    assert "its own descent would have brought it to 2.542 since" in verdict.reason
    assert judge_band(Band("loss", 2.55, 0.005, 40, 600), before, 0.02, peak).is_within
    assert judge_band(stays, replace(before, lasting=0.0), 0.02, peak).is_within, "of a journal that did not write it"


def test_a_fall_that_hardly_flattens_is_not_bounded_by_a_logarithm() -> None:
    """An exponential of 400 rows, 60 to 180 rows young: what it brings in the next 220 a logarithm would bring in 400."""
    peak, stays = Peak(181, 3.5), Band("loss", 2.80, 0.01, 40, 400)
    young = Band("loss", 2.93, 0.01, 120, 180, 0.27, 120, 0.86)
    assert judge_band(stays, young, 0.02, peak).stands == "above"
    assert judge_band(stays, replace(young, lasting=0.5), 0.02, peak).is_within, "a logarithm flattens so, too"
    assert judge_band(replace(stays, median=2.64), young, 0.02, peak).is_within


def test_a_steep_fall_is_expected_to_go_on_unless_it_was_the_beginning() -> None:
    peak, stays = Peak(168, 3.6), Band("loss", 2.675, 0.005, 40, 283)
    steep = Band("loss", 2.623, 0.005, 120, 167, 0.66, 112, 0.62)
    assert _stands_too_high(stays, steep, peak)
    assert not _stands_too_high(stays, replace(steep, fall=1.0), peak), (
        "more than a third of the level: nobody knows how it goes on"
    )


def _stands_too_high(now: Band, before: Band, peak: Peak) -> bool:
    return "its own descent would have brought it" in judge_band(now, before, 0.02, peak).reason


def test_a_loss_far_below_its_level_is_unknown_and_no_proof() -> None:
    before = Band("loss", 2.95, 0.01, 100, 200)
    for median in (-50.0, 0.0, 1.4):
        verdict = judge_band(Band("loss", median, 0.01, 60, 300), before, 0.02)
        assert verdict.stands == "unknown"
        assert "it is not believed" in verdict.reason
    assert judge_band(Band("loss", 1.6, 0.01, 60, 300), before, 0.02).is_within
    assert judge_band(Band("grad_norm", 0.1, 0.01, 60, 300), Band("grad_norm", 1.0, 0.1, 100, 200), 0.02).is_within
    falling = Band("loss", 2.95, 0.01, 100, 200, fall=0.9, fall_steps=100, lasting=0.9)
    assert judge_band(Band("loss", 1.0, 0.01, 60, 900), falling, 0.02).is_within, "its own descent may have brought it there"
    steep = Band("loss", 9.0, 0.1, 30, 40, fall=4.0, fall_steps=30, lasting=0.9)
    assert judge_band(Band("loss", 3.0, 0.01, 60, 900), steep, 0.02).is_within, "in its beginning a loss falls by anything"
