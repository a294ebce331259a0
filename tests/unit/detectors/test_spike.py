"""Spikes on synthetic streams: what must alarm, what must not, and what the finding says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import pytest

from sentinel.detectors.spike import SpikeSettings
from sentinel.model.findings import Kind, Verdict
from sentinel.model.readings import StepReading, TrainerNote
from tests.unit.detectors.bank_kit import (
    BATCH,
    SHORT_RUN,
    SpikeConfig,
    alarms,
    clean_run,
    feed,
    hurt,
    make_bank,
    receipt,
    row,
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_hundred_thousand_clean_noisy_steps_raise_no_alarm(seed: int) -> None:
    found = feed(make_bank(), clean_run(100_000, seed))
    assert alarms(found) == []
    assert len(found) <= 5


@pytest.mark.parametrize("seed", range(10))
def test_a_poisoned_window_in_a_short_run_is_found_within_a_few_steps(seed: int) -> None:
    bank = make_bank(SHORT_RUN)
    found = alarms(feed(bank, hurt(clean_run(600, seed), 200, 224, loss=1.5)))
    assert [finding.kind for finding in found] == [Kind.SPIKE]
    finding = found[0]
    assert finding.metric == "loss"
    assert finding.onset_step is not None
    assert 196 <= finding.onset_step <= 202
    assert finding.detected_step <= 208
    assert finding.visible_s == finding.onset_step  # it was heard one second a step
    assert finding.baseline is not None
    assert finding.baseline < 3.8


@pytest.mark.parametrize("seed", range(5))
def test_a_short_run_is_awake_from_step_sixty(seed: int) -> None:
    found = alarms(feed(make_bank(SHORT_RUN), hurt(clean_run(120, seed, noise=0.02), 62, 80, loss=4.0)))
    assert len(found) == 1
    assert found[0].detected_step <= 66


@pytest.mark.parametrize("height", [3.0, 6.0])
@pytest.mark.parametrize("onset", [70, 110, 150, 190])
@pytest.mark.parametrize("seed", range(3))
def test_a_young_run_is_judged_by_wider_bounds(seed: int, onset: int, height: float) -> None:
    """`min_history` is 200 steps, as shipped; the verdict stays unknown."""
    bank = make_bank(SpikeSettings())
    found = alarms(feed(bank, hurt(clean_run(onset + 6, seed, noise=0.01), onset, onset + 12, loss=height)))
    assert [finding.kind for finding in found] == [Kind.SPIKE]
    assert found[0].onset_step == onset
    young = make_bank(SpikeSettings())
    feed(young, clean_run(onset, seed, noise=0.01))
    verdict, reason = young.verdicts()[Kind.SPIKE]
    assert verdict is Verdict.UNKNOWN
    assert "loss unknown: too little history until step 201, until then by wider bounds" in reason


def test_a_rise_of_a_fifth_is_enough_where_a_young_run_is_quiet() -> None:
    """No nat, but sixteen deviations; five, which an old run would be told of after four rows, are too few."""
    for height, kinds in ((0.3, [Kind.SPIKE]), (0.07, [])):
        steps = range(1, 160)
        rows = (row(step, loss=1.5 + 0.01 * ((step * 7919) % 11 - 5) / 3, grad_norm=1.0) for step in steps)
        assert [found.kind for found in alarms(feed(make_bank(SpikeSettings()), hurt(rows, 150, 162, loss=height)))] == kinds


def test_clean_young_runs_raise_no_alarm() -> None:
    for seed in range(40):
        for noise in (0.003, 0.02, 0.05):
            assert alarms(feed(make_bank(SpikeSettings()), clean_run(210, seed, noise=noise))) == []


def test_before_there_is_history_the_verdict_is_unknown_and_nothing_fires() -> None:
    bank = make_bank(SHORT_RUN)
    assert feed(bank, hurt(clean_run(40, 0), 20, 30, loss=5.0)) == []
    assert bank.verdicts()[Kind.SPIKE][0] is Verdict.UNKNOWN


def test_a_single_hard_batch_is_one_info_finding() -> None:
    found = feed(make_bank(), hurt(clean_run(1000, 3), 500, 500, loss=4.0))
    assert len(found) == 1
    assert (found[0].severity, found[0].onset_step, found[0].detected_step) == ("info", 500, 501)
    assert "hard batch" in found[0].reason


def test_a_single_row_in_which_the_gradient_norm_agrees_is_an_alarm_at_once() -> None:
    (found,) = alarms(feed(make_bank(), hurt(clean_run(1000, 3, noise=0.02), 500, 500, loss=1.0, norm=10.0)))
    assert (found.metric, found.onset_step, found.detected_step) == ("loss", 500, 500)
    assert "agrees" in found.reason


def test_one_poisoned_window_is_one_finding_and_a_second_one_is_another() -> None:
    rows = hurt(hurt(clean_run(1200, 4), 400, 424, loss=3.0), 800, 824, loss=3.0)
    found = alarms(feed(make_bank(), rows))
    assert [finding.onset_step for finding in found] == [400, 800]
    assert len({finding.key for finding in found}) == 2


@pytest.mark.parametrize("every", [5, 100, 500])
def test_coarse_logging_finds_a_spike_of_one_or_two_rows(every: int) -> None:
    at = 400 * every
    rows = hurt(clean_run(600 * every, 5, every=every, noise=0.01), at, at + every, loss=1.0)
    found = alarms(feed(make_bank(), rows))
    assert [finding.onset_step for finding in found] == [at]
    assert found[0].detected_step <= at + every


@pytest.mark.parametrize(("every", "expected"), [(5, 1), (100, 1), (1, 0)])
def test_a_coarse_row_is_borne_out_by_a_second_half_as_high(every: int, expected: int) -> None:
    """One row of z 9 is a hard batch (alone it needs 9.6); with a second of z 5 it is a spike, if that is no mere next step."""
    quiet = [row(step, loss=2.5 + 0.02 * (step // every % 5 - 2)) for step in range(every, 601 * every, every)]
    first = 500 * every
    one = list(hurt_loss(quiet, {first: 0.29}))
    assert alarms(feed(make_bank(), one)) == []
    assert len(alarms(feed(make_bank(), hurt_loss(one, {first + every: 0.17})))) == expected


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        ((2.64, 2.64, 2.64, 2.64), 1),
        ((2.64, 2.64, 2.64), 0),
        ((2.64, 2.64, 2.64, 2.58, 2.64), 1),  # one of the hump's rows dips
        ((2.64, 2.64, 2.58, 2.58, 2.64, 2.64), 0),  # two do
        ((2.64, 2.58, 2.64, 2.64, 2.64), 0),  # it is no hump yet
        ((2.64, 2.64, 2.64, 2.52, 2.64), 0),  # this one is back
    ],
)
def test_a_low_hump_is_a_spike_though_one_of_its_rows_dips(high: tuple[float, ...], expected: int) -> None:
    """Four rows of z 4.7 are enough; the one that dips stands at 2.7 and does not count."""
    quiet = [row(step, loss=2.5 + 0.02 * (step % 5 - 2)) for step in range(1, 501)]
    hump = [row(501 + at, loss=value) for at, value in enumerate(high)]
    assert len(alarms(feed(make_bank(), [*quiet, *hump]))) == expected


def hurt_loss(rows: Iterable[StepReading], by: dict[int, float]) -> Iterator[StepReading]:
    return (dataclasses.replace(r, metrics={**r.metrics, "loss": r.metrics["loss"] + by.get(r.step, 0.0)}) for r in rows)


@pytest.mark.parametrize("every", [1, 5, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_steep_early_descent_raises_no_alarm(every: int, seed: int) -> None:
    found = feed(make_bank(SpikeConfig(min_history_steps=20)), clean_run(400 * every, seed, every=every, noise=0.02))
    assert alarms(found) == []


def test_the_gradient_norm_alone_alarms_when_it_stays() -> None:
    found = alarms(feed(make_bank(), hurt(clean_run(600, 6), 400, 420, norm=8.0)))
    assert [(finding.metric, finding.onset_step) for finding in found] == [("grad_norm", 400)]
    assert found[0].detected_step <= 404


def test_an_isolated_jump_of_the_gradient_norm_is_info() -> None:
    found = feed(make_bank(), hurt(clean_run(600, 6), 400, 401, norm=30.0))
    assert [finding.severity for finding in found] == ["info"]


def test_a_nan_blinds_nothing() -> None:
    rows = list(hurt(clean_run(600, 7), 400, 424, loss=3.0))
    rows[300] = row(301, loss=float("nan"), grad_norm=float("inf"))
    found = [finding for finding in alarms(feed(make_bank(), rows)) if finding.kind is Kind.SPIKE]
    assert [finding.onset_step for finding in found] == [400]


def test_a_permanent_shift_fires_once_and_becomes_the_new_normal() -> None:
    bank = make_bank()
    found = alarms(feed(bank, hurt(clean_run(3000, 8, noise=0.02), 1000, 3000, loss=1.5)))
    assert [finding.kind for finding in found] == [Kind.SPIKE, Kind.DIVERGENCE]
    verdict, reason = bank.verdicts()[Kind.SPIKE]
    assert verdict is Verdict.HEALTHY
    assert "new normal" in reason


def test_a_spike_five_steps_after_a_resume_is_seen_against_the_history() -> None:
    past = tuple(clean_run(500, 9))
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 1000.0)
    bank.receipt(receipt(2, resume_step=500, history=past, lr_scale=0.5), 1001.0)
    assert bank.newest_step == 500
    assert bank.samples_of(480) == past[479].samples
    future = [dataclasses.replace(r, attempt=2) for r in hurt(clean_run(540, 9), 505, 540, loss=2.5) if r.step > 500]
    found = alarms(feed(bank, future))
    assert [(finding.attempt, finding.onset_step) for finding in found] == [(2, 505)]


def test_a_live_override_cuts_the_level_and_leaves_the_sight() -> None:
    bank = make_bank()
    rows = list(hurt(clean_run(620, 10), 510, 530, loss=3.0))
    feed(bank, rows[:500])
    bank.note(TrainerNote(1, "override_applied", 500, 500.0), 500.0)
    assert len(alarms(feed(bank, rows[500:]))) == 1


def test_readings_of_another_attempt_are_ignored() -> None:
    bank = make_bank()
    assert bank.step(row(7, attempt=3, loss=float("nan")), 1.0) == ()
    assert bank.newest_step == 0


def test_re_reading_the_stream_gives_the_same_keys_whenever_it_is_heard() -> None:
    rows = list(hurt(hurt(clean_run(900, 11), 400, 424, loss=3.0), 700, 700, loss=5.0))
    live = feed(make_bank(), rows)
    again = make_bank(begun=False)
    again.begin_attempt(1, 5000.0)
    second = [finding for reading in (*rows[:450], *rows[300:]) for finding in again.step(reading, 5001.0)]
    assert [finding.key for finding in live] == [finding.key for finding in second]
    assert again.newest_step == 900


def test_levels_tell_before_during_and_after() -> None:
    bank = make_bank()
    feed(bank, hurt(clean_run(500, 12, noise=0.02), 400, 424, loss=3.0))
    pre = bank.pre_breach("loss")
    during, after = bank.level("loss", 399, 424), bank.level("loss", 450)
    assert pre is not None
    assert during is not None
    assert after is not None
    assert during.median > pre.median + 2.5
    assert abs(after.median - pre.median) < 0.2
    assert (after.count, after.first_step, after.last_step) == (50, 451, 500)
    assert bank.level("loss", 500) is None
    top = pre.median + 0.2
    assert bank.back_since("loss", top, 425) == 425
    feed(bank, (row(step, loss=9.0) for step in range(501, 506)))
    assert bank.back_since("loss", top, 425) is None
    assert bank.back_since("val_loss", top, 425) is None


def test_a_level_full_of_nan_is_never_inside_a_band() -> None:
    bank = make_bank()
    feed(bank, clean_run(100, 13))
    pre = bank.level("loss", 50)
    feed(bank, (row(step, loss=float("nan")) for step in range(101, 110)))
    assert pre is not None
    assert bank.back_since("loss", pre.median + 1.0, 101) is None
    after = bank.level("loss", 100)
    assert after is not None
    assert after.median == float("inf")


def test_the_samples_of_a_step_and_of_a_step_are_known() -> None:
    bank = make_bank()
    feed(bank, clean_run(10, 14))
    assert bank.samples_per_step == BATCH
    assert bank.samples_of(3) is not None
    assert bank.samples_of(11) is None


def test_a_switched_off_detector_is_unknown_and_silent() -> None:
    bank = make_bank(SpikeConfig(enabled=False))
    found = feed(bank, hurt(clean_run(600, 15), 400, 424, loss=3.0))
    assert [finding for finding in found if finding.kind is Kind.SPIKE] == []
    assert bank.verdicts()[Kind.SPIKE] == (Verdict.UNKNOWN, "switched off by policy")
