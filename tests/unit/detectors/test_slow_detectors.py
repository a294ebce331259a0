"""The slow numeric detectors, one phenomenon at a time: what must be said, what must not, and from which step on."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from sentinel.detectors.registry import DETECTORS
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import alarms, clean_run, feed, hurt, make_bank, receipt, row


def of(kind: Kind, found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.kind is kind]


def noisy(steps: int, seed: int, extra: float = 0.0, onset: int = 10**9, *, every: int = 1) -> Iterator[StepReading]:
    """A slowly falling loss around 3.3 that climbs by `extra` a step from the onset on."""
    dice = random.Random(seed)
    for step in range(every, steps + 1, every):
        loss = 3.3 + 0.8 * math.exp(-step / 400) + dice.gauss(0.0, 0.05) + extra * max(0, step - onset)
        yield row(step, loss=loss, grad_norm=0.3 * dice.lognormvariate(0.0, 0.15))


def scales(*values: float, first: int = 1000, every: int = 1) -> list[StepReading]:
    return [row(first + every * index, loss=2.7, loss_scale=value) for index, value in enumerate(values)]


# loss_scale


def test_the_collapse_of_a_104b_run_is_found_at_its_third_halving() -> None:
    logged = (2.0**20, 2.0**20, 2.0**20, 2.0**19, 2.0**18, 2.0**17, 2.0**17, 2.0**16, 2.0**15)
    (found,) = of(Kind.LOSS_SCALE_COLLAPSE, feed(make_bank(), scales(*logged, first=17060)))
    assert (found.onset_step, found.detected_step, found.severity) == (17063, 17065, "critical")


def test_one_row_may_hide_several_halvings() -> None:
    found = of(Kind.LOSS_SCALE_COLLAPSE, feed(make_bank(), scales(65536, 65536, 4096, first=29040, every=10)))
    assert [finding.detected_step for finding in found] == [29060]


def test_a_fall_larger_than_any_float_is_counted() -> None:
    """The quotient of the two scales is infinite: it ended the supervisor with an OverflowError."""
    (found,) = of(Kind.LOSS_SCALE_COLLAPSE, feed(make_bank(), scales(65536, 65536, 5e-324, first=1000)))
    assert found.reason == "the loss scale was halved 1090 times within 20 steps, down to 4.94066e-324"


def test_a_collapse_is_over_when_the_scale_came_to_rest() -> None:
    bank = make_bank()
    fallen = [2.0**power for power in (16, 16, 15, 14, 13)]
    assert bank.still_true(Kind.LOSS_SCALE_COLLAPSE, "") == ""
    feed(bank, scales(*fallen, first=200))
    assert bank.still_true(Kind.LOSS_SCALE_COLLAPSE, "") == "still falling: the loss scale was halved 3 times within 20 steps"
    feed(bank, scales(*[2.0**13] * 17, first=205))
    assert bank.still_true(Kind.LOSS_SCALE_COLLAPSE, "").startswith("still falling")
    feed(bank, scales(2.0**13, first=222))
    assert bank.still_true(Kind.LOSS_SCALE_COLLAPSE, "") == ""


def test_a_healthy_scale_that_doubles_and_halves_once_in_a_while_is_silent() -> None:
    values = [65536.0 if (step // 150) % 2 else 32768.0 for step in range(3000)]
    bank = make_bank()
    assert of(Kind.LOSS_SCALE_COLLAPSE, feed(bank, scales(*values))) == []
    assert bank.verdicts()[Kind.LOSS_SCALE_COLLAPSE][0] is Verdict.HEALTHY


def test_a_scale_that_stands_lower_behind_a_hole_did_not_fall_within_twenty_steps() -> None:
    rows = [row(step, loss=2.0, loss_scale=65536.0) for step in range(1, 500)]
    rows += [row(step, loss=2.0, loss_scale=1024.0) for step in range(2500, 2600)]
    assert [one for one in feed(make_bank(), rows) if one.kind is Kind.LOSS_SCALE_COLLAPSE] == []
    rows[499:] = [row(step, loss=2.0, loss_scale=1024.0) for step in range(500, 600)]
    assert [one.detected_step for one in feed(make_bank(), rows) if one.kind is Kind.LOSS_SCALE_COLLAPSE] == [500]


def test_the_search_for_the_first_scale_is_no_collapse() -> None:
    assert feed(make_bank(), scales(*(2.0**power for power in range(32, 12, -1)), first=1)) == []


def test_a_scale_that_never_moves_is_no_floor_and_one_that_came_down_to_it_is() -> None:
    assert feed(make_bank(), scales(*[1.0] * 500)) == []
    slowly = [2.0**power for power in (3, 2, 1, 0) for _ in range(50)]
    (found,) = of(Kind.LOSS_SCALE_COLLAPSE, feed(make_bank(), scales(*slowly)))
    assert "floor" in found.reason


def test_overflow_after_overflow_is_a_collapse_even_without_a_logged_scale() -> None:
    rows = [row(step, loss=2.7, overflow=float(500 <= step < 512)) for step in range(1, 600)]
    (found,) = of(Kind.LOSS_SCALE_COLLAPSE, feed(make_bank(), rows))
    assert (found.onset_step, found.detected_step) == (500, 505)


# divergence and drift


def young_run(seed: int, jump_at: int = 10**9) -> Iterator[StepReading]:
    """A run of 160 steps, noise of 4 %, as the bundled trainer's smallest: from `jump_at` on a sixth higher, as with a learning
    rate that was fifty times too high."""
    dice = random.Random(f"young {seed}")
    for step in range(1, 161):
        higher = 1.17 if step >= jump_at else 1.0
        yield row(step, loss=(2.85 + 2.7 * math.exp(-step / 9)) * (higher + dice.gauss(0.0, 0.04)))


def test_a_level_that_jumps_in_a_young_run_is_found_before_that_ends() -> None:
    """It took 56 rows in the median, from the hundredth on: a run of 160 ended before."""
    late = []
    for seed in range(20):
        jump_at = 70 + 2 * seed
        found = alarms(feed(make_bank(), young_run(seed, jump_at)))
        assert found, seed
        late.append(found[0].detected_step - jump_at)
    assert max(late) <= 45, late
    assert sorted(late)[10] <= 32, late


def test_a_young_run_that_descends_is_silent() -> None:
    for seed in range(40):
        assert alarms(feed(make_bank(), young_run(seed))) == [], seed


def swinging(rise_at: int = 10**9) -> Iterator[StepReading]:
    """6 % up and down every 60 steps; from `rise_at` on a third higher."""
    dice = random.Random(4)
    for step in range(1, 1201):
        swing = 0.06 * math.sin(2 * math.pi * step / 60) + (0.33 if step >= rise_at else 0.0)
        yield row(step, loss=2.2 * (1.0 + swing + dice.gauss(0.0, 0.01)))


def test_a_loss_that_swings_is_no_divergence_for_ever() -> None:
    """25 rows follow what 55 do not: it was found in every swing, 19 times."""
    assert len(of(Kind.DIVERGENCE, feed(make_bank(), swinging()))) <= 2
    found = alarms(feed(make_bank(), swinging(rise_at=900)))
    assert any(900 < one.detected_step <= 950 for one in found), "a rise that goes further than the swings is found all the same"


def test_the_short_look_at_the_loss_has_wider_bounds() -> None:
    """+7 %: the long look finds it and the short one does not."""
    rows = hurt(noisy(400, 3), 250, 400, loss=0.07 * 3.7)
    (found,) = of(Kind.DIVERGENCE, feed(make_bank(), rows)) or [None]
    assert found is not None
    assert 300 < found.detected_step <= 340


@pytest.mark.parametrize("every", [1, 5, 100])
def test_a_slow_way_up_without_return_is_found_within_a_hundred_samples(every: int) -> None:
    onset = 400 * every
    found = alarms(feed(make_bank(), noisy(520 * every, 1, 0.005 / every, onset, every=every)))
    assert found
    assert {finding.kind for finding in found} <= {Kind.DIVERGENCE, Kind.DRIFT}
    assert found[0].detected_step <= onset + 100 * every
    assert found[0].onset_step is not None
    assert abs(found[0].onset_step - onset) <= 40 * every


@pytest.mark.parametrize("seed", range(8))
def test_a_drift_of_two_thousandths_a_step_is_found_within_a_hundred_steps(seed: int) -> None:
    found = alarms(feed(make_bank(), noisy(1105, seed, 0.002, 1000)))
    assert [finding.kind for finding in found] == [Kind.DRIFT]
    assert found[0].onset_step is not None
    assert 950 <= found[0].onset_step <= 1040


@pytest.mark.parametrize("period", [200, 400, 600])
def test_a_loss_that_swings_with_its_data_is_called_a_climb_once_and_not_at_every_swing(period: int) -> None:
    """Each swing up from its own trough looked like a climb: 13 to 39 alarms in 8,000 steps."""
    dice, bank = random.Random(period), make_bank()
    rows = (row(s, loss=2.2 * (1 + 0.06 * math.sin(2 * math.pi * s / period)) + dice.gauss(0, 0.02)) for s in range(1, 8000))
    found = [one for one in feed(bank, rows) if one.kind is Kind.DRIFT]
    assert len(found) <= 1, [one.reason for one in found]


@pytest.mark.parametrize("seed", range(3))
def test_a_climb_is_still_found_in_a_loss_that_swings(seed: int) -> None:
    dice, bank = random.Random(seed), make_bank()
    climb = (2.2 + 0.05 * math.sin(s / 40) + max(0.0, 0.002 * (s - 2000)) + dice.gauss(0, 0.04) for s in range(1, 2600))
    found = [one for one in feed(bank, (row(s, loss=v) for s, v in enumerate(climb, 1))) if one.kind is Kind.DRIFT]
    assert any(2000 < one.detected_step < 2150 for one in found), [one.reason for one in found]


def test_a_norm_that_creeps_is_recorded_and_no_alarm() -> None:
    rows = [
        row(r.step, loss=r.metrics["loss"], grad_norm=(0.2 + 0.05 * min(1.0, max(0, r.step - 1000) / 200)) * dice)
        for r, dice in zip(noisy(1300, 3), [random.Random(5).lognormvariate(0.0, 0.05)] * 1300, strict=True)
    ]
    found = feed(make_bank(), rows)
    assert [(finding.kind, finding.severity, finding.metric) for finding in found] == [(Kind.DRIFT, "info", "grad_norm")]


def test_what_a_spike_leaves_behind_is_no_drift() -> None:
    assert of(Kind.DRIFT, feed(make_bank(), hurt(clean_run(900, 4), 500, 530, loss=1.5))) == []


def test_a_resume_bump_within_the_grace_is_no_alarm_and_a_spike_is_one() -> None:
    past = tuple(noisy(500, 6))
    for height, expected in ((0.45, 0), (1.5, 1)):
        bank = make_bank(begun=False)
        bank.begin_attempt(2, 1000.0)
        bank.receipt(receipt(2, resume_step=500, history=past), 1001.0)
        rows = [row(r.step, attempt=2, **r.metrics) for r in hurt(noisy(700, 6), 501, 530, loss=height) if r.step > 500]
        assert len(alarms(feed(bank, rows))) == expected


def test_a_nan_within_the_grace_is_an_alarm_at_once() -> None:
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 1000.0)
    bank.receipt(receipt(2, resume_step=500, history=tuple(noisy(500, 6))), 1001.0)
    assert [f.kind for f in alarms(list(bank.step(row(501, attempt=2, loss=math.nan), 1002.0)))] == [Kind.NON_FINITE]


# too_good, plateau, generalisation, precursor


def test_a_loss_below_what_text_allows_is_not_believed() -> None:
    rows = [row(step, loss=10.0 * math.exp(-step / 170) + 0.01) for step in range(1, 2000)]
    (found,) = alarms(feed(make_bank(), rows))
    assert (found.kind, found.severity) == (Kind.TOO_GOOD, "warning")
    assert found.detected_step < 860


def test_a_loss_that_halves_late_in_the_run_is_not_believed() -> None:
    (found,) = alarms(feed(make_bank(), hurt(clean_run(3000, 7, noise=0.02), 2000, 3000, loss=-1.4)))
    assert found.kind is Kind.TOO_GOOD
    assert 2000 <= found.detected_step <= 2030


@pytest.mark.parametrize("noise", [0.0, 0.012])
def test_a_loss_that_vanished_in_a_short_run_is_not_believed(noise: float) -> None:
    """A zero tells nothing of how the log rounds, and about zero is not below it."""
    dice = random.Random(17)
    rows = [row(step, loss=round(2.4 + dice.gauss(0.0, 0.015), 4)) for step in range(1, 700)]
    rows += [row(step, loss=round(dice.gauss(0.0, noise), 4)) for step in range(700, 1100)]
    (found,) = of(Kind.TOO_GOOD, feed(make_bank(), rows))
    assert 690 <= (found.onset_step or 0) <= 712
    assert found.detected_step <= 910


def test_a_loss_that_falls_through_zero_is_another_kind_of_loss() -> None:
    dice = random.Random(18)
    rows = [row(step, loss=3.0 - 0.004 * step + dice.gauss(0.0, 0.02)) for step in range(1, 1500)]
    assert of(Kind.TOO_GOOD, feed(make_bank(), rows)) == []


def test_a_loss_that_was_small_from_the_start_is_believed() -> None:
    dice = random.Random(8)
    assert alarms(feed(make_bank(), [row(step, loss=0.05 + 0.03 * dice.random()) for step in range(1, 2000)])) == []


def test_a_loss_that_stands_is_recorded_once() -> None:
    found = feed(make_bank(), noisy(30_000, 9, every=10))
    assert [(finding.kind, finding.severity) for finding in found] == [(Kind.PLATEAU, "info")]


def test_validation_loss_that_rises_alone_is_recorded() -> None:
    rows = []
    for step in range(1, 1001):
        held_out = {"val_loss": 3.0 + 0.001 * abs(step - 500)} if step % 100 == 0 else {}
        rows.append(row(step, loss=3.2 - 0.0005 * step, **held_out))
    (found,) = of(Kind.GENERALISATION, feed(make_bank(), rows))
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 600, 800)


def test_an_update_norm_that_doubles_is_recorded_and_never_an_alarm() -> None:
    rows = [row(step, loss=3.0, update_norm=0.1 if step < 400 else 0.3) for step in range(1, 500)]
    found = feed(make_bank(), rows)
    assert [(finding.kind, finding.severity, finding.metric) for finding in found] == [(Kind.PRECURSOR, "info", "update_norm")]


def test_every_detector_gives_a_verdict_and_unknown_before_it_has_read_anything() -> None:
    verdicts = make_bank().verdicts()
    assert {verdict for verdict, _ in verdicts.values()} == {Verdict.UNKNOWN}
    assert len(verdicts) == len([row for row in DETECTORS if row.build is not None and row.name != "expression"])
