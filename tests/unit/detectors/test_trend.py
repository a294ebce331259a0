"""Slow declines: each shape is found at each logging interval, two are a warning, healthy runs are silent."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Iterator

import pytest

from sentinel.client.settings import SETTINGS
from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.trend import KIND, TrendSettings
from sentinel.model.findings import Finding, Verdict
from sentinel.model.readings import StepReading, TrainerNote
from sentinel.streams.long_history import BUCKETS_MAX, RECENT_MAX, LongHistory, RecentHistory
from tests.unit.detectors.bank_kit import config, feed, receipt, row
from tests.unit.detectors.slow_streams import (
    BREAK,
    SCHEDULES,
    SHAPES,
    Noise,
    Shape,
    activations_rise,
    changed,
    clips_more,
    gaussian,
    gradient_creeps,
    healthy,
    scale_falls,
    t4,
)

SLOW = pytest.mark.slow


def rises_soon(since: int, metrics: dict[str, float]) -> None:
    """By half within 3000 steps."""
    metrics["activation_norm"] *= 1.0 + 0.5 * min(1.0, max(0, since) / 3000)


def of(found: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.kind is KIND]


def fresh(**settings: object) -> DetectorBank:
    """No other detector: these runs are long."""
    off = {name: dataclasses.replace(one, enabled=False) for name, one in vars(config()).items() if hasattr(one, "enabled")}
    bank = DetectorBank(config(**off | {"trend": TrendSettings(**settings)}), {}, {})  # type: ignore[arg-type]
    bank.begin_attempt(1, 0.0)
    return bank


@pytest.mark.parametrize("noise", [gaussian, t4])
@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), pytest.param(10, marks=SLOW), 100])
@pytest.mark.parametrize("metric", SHAPES)
def test_each_slow_decline_is_found_once_as_info(metric: str, every: int, noise: Noise) -> None:
    shape, steps, soonest, latest = SHAPES[metric]
    for seed in range(3):
        found = of(feed(fresh(), changed(healthy(steps, every, seed, noise), shape)))
        assert [finding.metric for finding in found] == [metric], f"seed {seed}: {[finding.reason for finding in found]}"
        (finding,) = found
        assert (finding.severity, finding.kind.is_numeric) == ("info", False)
        assert BREAK + soonest <= finding.detected_step <= BREAK + latest, f"seed {seed}: {finding.reason}"
        assert finding.onset_step is not None
        assert finding.onset_step < finding.detected_step
        assert finding.reason.startswith(f"{metric} ")


@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 10, 100])
def test_the_104b_is_told_before_its_spike(every: int) -> None:
    """Its loss scale fell from iteration 4.7k on, and its loss broke at 7k. Logged every 100 steps it takes 3000 steps."""
    rows = changed(healthy(8000, every, 1), scale_falls, first=4700)
    (finding,) = of(feed(fresh(), rows))
    assert finding.onset_step is not None
    assert 4500 <= finding.onset_step <= 5700
    assert finding.detected_step <= (7000 if every < 100 else 8000)
    assert finding.baseline == pytest.approx(4096.0)
    assert finding.value is not None
    assert finding.value <= 512.0


def test_a_norm_that_rises_and_is_clipped_more_often_for_it_is_one_witness() -> None:
    """Both moved in the bundled trainer's own healthy run, and a person was called."""

    def rises(since: int, metrics: dict[str, float]) -> None:
        metrics["grad_norm"] *= 1.0 + 0.5 * min(1.0, max(0, since) / 4000)
        metrics["clip_fraction"] += 0.5 * min(1.0, max(0, since) / 4000)

    found = of(feed(fresh(), changed(healthy(30_000, 10, 3), rises)))
    assert {one.metric for one in found} == {"grad_norm", "clip_fraction"}
    assert {one.severity for one in found} == {"info"}
    assert any("; at the same time " in one.reason for one in found), "it is still said"


def test_a_gradient_norm_that_rises_while_the_parameters_shrink_is_one_witness() -> None:
    """Weight decay under a falling learning rate does both. The bundled trainer did so in good health, and called a person."""

    def decays(since: int, metrics: dict[str, float]) -> None:
        metrics["grad_norm"] *= 1.0 + 0.5 * min(1.0, max(0, since) / 4000)
        metrics["param_norm"] *= 1.0 - 0.2 * min(1.0, max(0, since) / 12_000)

    found = of(feed(fresh(), changed(healthy(30_000, 10, 3), decays)))
    assert {one.metric for one in found} == {"grad_norm", "param_norm"}
    assert {one.severity for one in found} == {"info"}


def test_two_at_the_same_time_are_a_warning_and_it_names_both() -> None:
    bank = fresh()
    first, second = of(feed(bank, changed(healthy(30_000, 10, 3), scale_falls, activations_rise)))
    assert (first.metric, first.severity) == ("loss_scale", "info")
    assert (second.metric, second.severity) == ("activation_norm", "warning")
    assert second.reason.startswith("activation_norm rises since step ")
    assert "; at the same time loss_scale falls since step " in second.reason
    assert first.key != second.key


def test_the_rule_says_how_grave_two_are_and_one_stays_info() -> None:
    bank = DetectorBank(config(trend=TrendSettings()), {}, {KIND: "critical"})
    bank.begin_attempt(1, 0.0)
    found = of(feed(bank, changed(healthy(30_000, 10, 3), scale_falls, activations_rise)))
    assert [finding.severity for finding in found] == ["info", "critical"]


def test_two_that_follow_each_other_do_not_agree() -> None:
    """The scale falls and comes back; long after, the activations rise."""

    def comes_back(since: int, metrics: dict[str, float]) -> None:
        scale_falls(since, metrics)
        metrics["loss_scale"] = metrics["loss_scale"] if since < 5000 else 4096.0

    rows = changed(changed(healthy(60_000, 10, 4), comes_back), activations_rise, first=35_000)
    found = of(feed(fresh(), rows))
    assert [(finding.metric, finding.severity) for finding in found] == [("loss_scale", "info"), ("activation_norm", "info")]


def test_one_that_is_no_longer_logged_agrees_with_nobody() -> None:
    def ends(since: int, metrics: dict[str, float]) -> None:
        if since > 2600:  # found at 2000 to 2500, and still falling
            del metrics["loss_scale"]

    found = of(feed(fresh(), changed(healthy(60_000, 10, 4), scale_falls, ends, gradient_creeps)))
    assert [(finding.metric, finding.severity) for finding in found] == [("loss_scale", "info"), ("grad_norm", "info")]


def test_a_scale_that_wanders_is_told_only_where_it_never_stood() -> None:
    """It falls by 64, comes back, and falls by 64 again: the second time to where it was before."""

    def twice(since: int, metrics: dict[str, float]) -> None:
        scale_falls(since if since < 5000 else since - 15_000, metrics)

    rows = list(changed(healthy(45_000, 10, 4), twice))
    assert [finding.metric for finding in of(feed(fresh(warmup_steps=16_000), rows))] == ["loss_scale"], "the first is not seen"
    first_seen_elsewhere = changed(rows, lambda since, metrics: metrics.update(loss_scale=32.0) if since < -6000 else None)
    assert of(feed(fresh(), first_seen_elsewhere)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("noise", [gaussian, t4])
@pytest.mark.parametrize(("every", "steps", "seeds"), [
    pytest.param(1, 20_000, 2, marks=SLOW), pytest.param(10, 60_000, 4, marks=SLOW), (100, 100_000, 1),
])  # fmt: skip
def test_healthy_runs_are_silent(schedule: str, noise: Noise, every: int, steps: int, seeds: int) -> None:
    for seed in range(100, 100 + seeds):
        found = of(feed(fresh(), healthy(steps, every, seed, noise, schedule)))
        assert found == [], f"seed {seed}: {[finding.reason for finding in found]}"


def test_a_learning_rate_that_still_rises_excuses_rising_norms() -> None:
    """A warm-up of 20,000 steps: the activations grow with the rate."""

    def long_warm_up(since: int, metrics: dict[str, float]) -> None:
        metrics["lr"] = 3e-4 * min(1.0, (since + BREAK) / 20_000)
        metrics["activation_norm"] *= 1.0 + metrics["lr"] / 3e-4

    bank = fresh()
    assert of(feed(bank, changed(healthy(20_000, 10, 5), long_warm_up))) == []
    assert bank.verdicts()[KIND][0] is Verdict.UNKNOWN


def test_without_a_learning_rate_norms_are_not_judged_and_that_is_said() -> None:
    def norms_alone(rows: Iterable[StepReading]) -> Iterator[StepReading]:
        for reading in rows:
            kept = {name: value for name, value in reading.metrics.items() if name in ("loss", "grad_norm", "param_norm")}
            yield dataclasses.replace(reading, metrics=kept)

    bank = fresh()
    creeping = list(norms_alone(changed(healthy(60_000, 100, 1, has_rate=False), gradient_creeps)))
    assert of(feed(bank, creeping)) == []
    verdict, reason = bank.verdicts()[KIND]
    assert verdict is Verdict.UNKNOWN
    assert reason.endswith("norms are not judged, as no learning rate is logged")
    assert [finding.metric for finding in of(feed(fresh(without_lr=True), creeping))] == ["grad_norm"]


def test_how_it_stands() -> None:
    bank = fresh()
    rows = list(changed(healthy(18_000, 10, 6), scale_falls))
    feed(bank, (reading for reading in rows if reading.step <= 3000))
    assert bank.verdicts()[KIND] == (Verdict.UNKNOWN, "too little history for slow changes, or the learning rate still rises")
    feed(bank, (reading for reading in rows if 3000 < reading.step <= BREAK))
    verdict, reason = bank.verdicts()[KIND]
    assert verdict is Verdict.HEALTHY
    assert reason.startswith("no slow change for the worse of loss_scale, activation_norm, grad_norm, param_norm, clip_fraction")
    feed(bank, (reading for reading in rows if BREAK < reading.step <= BREAK + 4000))
    verdict, reason = bank.verdicts()[KIND]
    assert verdict is Verdict.BREACHED
    assert reason.startswith("loss_scale falls since step ")
    feed(bank, (reading for reading in rows if reading.step > BREAK + 4000))
    assert bank.verdicts()[KIND][0] is Verdict.HEALTHY, "it stands at 64 for longer than it took to fall"


@pytest.mark.parametrize("how", ["a jump of the rate", "a setting changed live", "a resume under other settings"])
def test_a_change_of_settings_makes_no_trend(how: str) -> None:
    """The gradient norm and the clip fraction stand at another level afterwards; nothing declines."""

    def other_level(since: int, metrics: dict[str, float]) -> None:
        if since > 0:
            metrics["grad_norm"] *= 1.5
            metrics["clip_fraction"] += 0.4
            metrics["lr"] *= 0.5 if how == "a jump of the rate" else 1.0

    bank = fresh()
    rows = list(changed(healthy(40_000, 10, 7), other_level, first=20_000))
    before, after = [r for r in rows if r.step <= 20_000], [r for r in rows if r.step > 20_000]
    found = feed(bank, before)
    if how == "a setting changed live":
        bank.note(TrainerNote(1, "override_applied", 20_001, 20_001.0, {}), 20_001.0)
    elif how == "a resume under other settings":
        bank.begin_attempt(2, 20_001.0)
        bank.receipt(receipt(2, 20_000, history=tuple(before[-500:]), clip_norm=0.3), 20_001.0)
        after = [dataclasses.replace(reading, attempt=2) for reading in after]
    found += feed(bank, after)
    assert of(found) == []


IN_FORCE = {key: row.usual for key, row in SETTINGS.items() if row.usual is not None} | {"loss_scale": 4096.0}


@pytest.mark.parametrize(("answer", "found"), [
    (IN_FORCE | {"checkpoint_interval": 100, "loss_scale": 2048.0}, ["loss_scale", "activation_norm"]),
    (IN_FORCE | {"weight_decay": 0.2, "loss_scale": 2048.0}, ["loss_scale"]),
    (IN_FORCE | {"loss_scale": 65536.0}, ["activation_norm"]),
    ({"checkpoint_interval": 100}, []),
    (None, []),
])  # fmt: skip
def test_a_live_setting_clears_the_past_of_what_it_moves_and_nothing_else(answer: object, found: list[str]) -> None:
    """Two declines under way; a setting is changed 1000 steps before either could be told. The scale stood at 2048 then."""
    bank = fresh()
    bank.receipt(dataclasses.replace(receipt(1, 0), effective=IN_FORCE), 0.0)
    rows = list(changed(healthy(15_000, 10, 3), scale_falls, activations_rise))
    at = BREAK + 600

    def rise_sooner(since: int, metrics: dict[str, float]) -> None:
        metrics["activation_norm"] *= 1.0 + 0.8 * max(0.0, min(1.0, since / 2000)) / (1.0 + 0.75 * max(0, since) / 15_000)

    rows = list(changed(rows, rise_sooner))
    told = of(feed(bank, (r for r in rows if r.step <= at)))
    bank.note(TrainerNote(1, "override_applied", at + 1, float(at + 1), {"effective": answer}), float(at + 1))
    told += of(feed(bank, (r for r in rows if at < r.step <= at + 1900)))
    assert sorted(one.metric or "" for one in told) == sorted(found), [one.reason for one in told]


def test_a_resume_learns_the_past_and_tells_it_not_again() -> None:
    rows = list(changed(healthy(24_000, 100, 8), scale_falls))
    assert len(of(feed(fresh(), rows))) == 1
    bank = fresh()
    bank.begin_attempt(2, 0.0)
    bank.receipt(receipt(2, 16_000, history=tuple(r for r in rows if r.step <= 16_000)), 0.0)
    assert of(feed(bank, (dataclasses.replace(r, attempt=2) for r in rows if r.step > 16_000))) == []
    early = fresh()
    early.begin_attempt(2, 0.0)
    early.receipt(receipt(2, 11_000, history=tuple(r for r in rows if r.step <= 11_000)), 0.0)
    (finding,) = of(feed(early, (dataclasses.replace(r, attempt=2) for r in rows if r.step > 11_000)))
    assert finding.metric == "loss_scale"


def test_the_same_rows_give_the_same_keys() -> None:
    rows = list(changed(healthy(30_000, 10, 3), scale_falls, activations_rise))
    assert [one.key for one in of(feed(fresh(), rows))] == [one.key for one in of(feed(fresh(), rows))]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_values_that_are_no_numbers_are_left_out(bad: float) -> None:
    def hurt(since: int, metrics: dict[str, float]) -> None:
        if since % 700 == 0:
            metrics |= dict.fromkeys(("loss_scale", "activation_norm", "param_norm", "grad_norm", "lr"), bad)

    (finding,) = of(feed(fresh(), changed(healthy(18_000, 10, 9), scale_falls, hurt)))
    assert finding.metric == "loss_scale"


def test_the_settings_count() -> None:
    rows = list(changed(healthy(18_000, 100, 10), scale_falls))
    assert of(feed(fresh(loss_scale_fall=100.0), rows)) == []
    assert of(feed(fresh(lasting_steps=30_000), rows)) == []
    assert of(feed(fresh(warmup_steps=20_000), rows)) == []
    assert of(feed(fresh(enabled=False), rows)) == []


@pytest.mark.parametrize(("metric", "shape", "within"), [
    ("loss_scale", scale_falls, 2500), ("clip_fraction", clips_more, 1500), ("activation_norm", rises_soon, 3000),
])  # fmt: skip
@pytest.mark.parametrize("every", [pytest.param(10, marks=SLOW), 50])
def test_a_short_decline_late_in_a_long_run_is_found_as_soon_as_an_early_one(
    every: int, metric: str, shape: Shape, within: int
) -> None:
    """Of 3000 steps in the 100,000th: shorter than two buckets of the whole past."""
    (finding,) = of(feed(fresh(), changed(healthy(106_000, every, 1), shape, first=100_000)))
    assert finding.metric == metric
    assert finding.onset_step is not None
    assert 99_000 <= finding.onset_step <= finding.detected_step <= 100_000 + within * (1 if every == 10 else 2)


def test_a_late_decline_is_followed_where_it_was_found_and_told_once() -> None:
    """It stands at 64 for longer than it took to fall, and then it falls again, to where it never was."""

    def twice(since: int, metrics: dict[str, float]) -> None:
        scale_falls(since, metrics)
        if since > 8000:
            metrics["loss_scale"] = max(1.0, 64.0 / 2.0 ** ((since - 8000) // 500))

    once, again = of(feed(fresh(), changed(healthy(112_000, 50, 1), twice, first=100_000)))
    assert (once.metric, again.metric) == ("loss_scale", "loss_scale")
    assert once.detected_step < 104_000
    assert again.detected_step > 108_000


def noisy_creep(seed: int, height: float, length: int) -> Iterator[StepReading]:
    """A gradient norm with 20 % noise, logged every 10 steps, that rises by `height` from step 5000 on."""
    dice = random.Random(seed)
    for step in range(10, 60_001, 10):
        level = 0.5 * (1.0 + height * min(1.0, max(0, step - 5000) / length))
        yield row(step, grad_norm=level * math.exp(0.2 * dice.gauss(0.0, 1.0)), lr=3e-4 * (1.0 - 0.7 * step / 60_000))


@pytest.mark.parametrize("seed", [3, 6, 9])
def test_a_creep_is_told_once_however_large(seed: int) -> None:
    """Noise that adds to a rise makes it found: it looked larger than it was, seemed to stand, and the rest was told again."""
    (finding,) = of(feed(fresh(), noisy_creep(seed, 0.9, 30_000)))
    assert finding.metric == "grad_norm"


def test_an_episode_ends_when_the_creep_stands() -> None:
    bank = fresh()
    verdicts = []
    for reading in noisy_creep(1, 0.9, 12_000):
        bank.step(reading, float(reading.step))
        verdicts.append(bank.verdicts()[KIND][0] if reading.step % 1000 == 0 else None)
    assert verdicts.index(Verdict.BREACHED) * 10 < 17_000
    assert verdicts[-1] is Verdict.HEALTHY


def test_the_recent_past_keeps_its_width() -> None:
    recent = RecentHistory(4)
    for block in range(10_000):
        recent.add(5 * block + 1, 5 * block + 5, float(block), None, 0.0)
    assert (len(recent.buckets), recent.width) == (RECENT_MAX, 4)
    assert recent.buckets[-1].last_step == 50_000
    assert {one.last_step - one.first_step + 1 for one in recent.buckets} == {20}
    recent.clear()
    assert (recent.buckets, recent.width) == ([], 4)


def test_the_past_is_bounded_and_spans_the_whole_run() -> None:
    history = LongHistory()
    for block in range(100_000):
        history.add(5 * block + 1, 5 * block + 5, float(block), None, 0.0)
    assert BUCKETS_MAX // 2 <= len(history.buckets) < BUCKETS_MAX
    assert history.buckets[0].first_step == 1
    assert [one.first_step for one in history.buckets[1:]] == [one.last_step + 1 for one in history.buckets[:-1]]
    assert history.buckets[0].middle == (history.width - 1) / 2.0
