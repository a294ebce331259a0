"""One layer's share of the gradient norm: what is found, which layer is named, and what must stay silent."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.layer_imbalance import LAYERS_MAX, LayerImbalanceSettings
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import config, feed, make_bank, receipt, row

KIND = Kind("layer_imbalance")
USUAL = {"embed": 1.4, "block-00": 1.0, "block-01": 0.8, "block-02": 0.7, "block-03": 0.6, "head": 1.2}
ONSET = 600


def layered(
    steps: int, seed: int, *, every: int = 1, noise: float = 0.2, first: int = 1, usual: dict[str, float] | None = None
) -> Iterator[StepReading]:
    """Log-normal norms of the layers under a total that strays by itself."""
    dice = random.Random(seed)
    for step in range(first, steps + 1, every):
        norms = {layer: size * dice.lognormvariate(0.0, noise) for layer, size in (usual or USUAL).items()}
        total = 0.3 * dice.lognormvariate(0.0, 0.15)
        scale = total / math.sqrt(sum(norm * norm for norm in norms.values()))
        layers = {f"grad_norm/{layer}": norm * scale for layer, norm in norms.items()}
        yield row(step, loss=3.0 + dice.gauss(0.0, 0.05), grad_norm=total, **layers)


def shifted(
    rows: Iterable[StepReading], layer: str, times: float, first: int = ONSET, last: int = 10**9
) -> Iterator[StepReading]:
    """The same rows; one layer's norm times so much in steps first..last. The total stays as it was logged."""
    name = f"grad_norm/{layer}"
    for reading in rows:
        if first <= reading.step <= last:
            metrics = dict(reading.metrics)
            metrics[name] *= times
            reading = dataclasses.replace(reading, metrics=metrics)
        yield reading


def of(found: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.kind is KIND]


def standing(bank: DetectorBank) -> tuple[Verdict, str]:
    return bank.verdicts()[KIND]


@pytest.mark.parametrize("layer", ["embed", "block-02", "head"])
@pytest.mark.parametrize("times", [2.0, 0.5])
def test_one_layers_share_that_moves_is_found_and_the_layer_is_named(layer: str, times: float) -> None:
    bank = make_bank()
    (finding,) = of(feed(bank, shifted(layered(700, 1), layer, times)))
    assert (finding.metric, finding.severity, finding.kind.is_numeric) == (f"grad_norm/{layer}", "info", False)
    assert finding.reason.startswith(f"{layer} holds ")
    assert finding.onset_step is not None
    assert ONSET - 5 <= finding.onset_step <= ONSET + 5
    assert finding.detected_step <= ONSET + 35
    assert finding.value is not None
    assert finding.baseline is not None
    assert finding.value / finding.baseline == pytest.approx(times, rel=0.5)
    verdict, reason = standing(bank)
    assert verdict is Verdict.BREACHED
    assert reason.startswith(f"{layer} at ")


def test_the_total_may_do_what_it_likes() -> None:
    def scaled(rows: Iterable[StepReading]) -> Iterator[StepReading]:
        for reading in rows:
            times = 30.0 if reading.step >= ONSET else 1.0
            yield dataclasses.replace(
                reading, metrics={n: v * times if n.startswith("grad_norm/") else v for n, v in reading.metrics.items()}
            )

    assert of(feed(make_bank(), scaled(layered(900, 2)))) == []


@settings(max_examples=12, deadline=None, print_blob=True)
@given(seed=st.integers(0, 10**6), layers=st.integers(4, 12), noise=st.floats(0.02, 0.4))
def test_it_never_fires_on_stationary_noise(seed: int, layers: int, noise: float) -> None:
    print(f"seed {seed}, {layers} layers, noise {noise:g}")
    dice = random.Random(seed)
    usual = {f"block-{place:02d}": dice.uniform(0.3, 1.5) for place in range(layers)}
    assert of(feed(make_bank(), layered(1500, seed, noise=noise, usual=usual))) == []


def test_a_few_odd_rows_are_no_finding_and_leave_the_band_alone() -> None:
    bank = make_bank()
    assert of(feed(bank, shifted(layered(ONSET + 100, 3), "block-01", 30.0, ONSET, ONSET + 6))) == []
    assert standing(bank)[0] is Verdict.HEALTHY


def test_a_breached_share_is_not_learned_and_one_that_stays_is_the_new_band() -> None:
    found = of(feed(make_bank(), shifted(layered(780, 4), "block-01", 3.0)))
    assert [finding.metric for finding in found] == ["grad_norm/block-01"]
    bank = make_bank()
    assert len(of(feed(bank, shifted(layered(1500, 4), "block-01", 3.0)))) == 1
    assert standing(bank)[0] is Verdict.HEALTHY


def test_two_episodes_are_two_findings() -> None:
    rows = shifted(shifted(layered(1000, 5), "head", 3.0, ONSET, 650), "head", 3.0, 850, 900)
    assert len(of(feed(make_bank(), rows))) == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_a_norm_that_is_no_number_is_another_detectors_business_and_blinds_nothing(bad: float) -> None:
    def hurt(rows: Iterable[StepReading]) -> Iterator[StepReading]:
        for reading in rows:
            if reading.step in (300, 400, 401, ONSET + 3):
                reading = dataclasses.replace(reading, metrics={**reading.metrics, "grad_norm/embed": bad})
            yield reading

    (finding,) = of(feed(make_bank(), hurt(shifted(layered(700, 6), "block-00", 2.5))))
    assert finding.metric == "grad_norm/block-00"


def test_frozen_layers_and_steps_without_a_gradient_are_no_finding() -> None:
    def frozen(rows: Iterable[StepReading]) -> Iterator[StepReading]:
        for reading in rows:
            zero = [n for n in reading.metrics if n.startswith("grad_norm/") and (n.endswith("embed") or reading.step % 50 == 0)]
            yield dataclasses.replace(reading, metrics={**reading.metrics, **dict.fromkeys(zero, 0.0)})

    bank = make_bank()
    assert of(feed(bank, frozen(layered(900, 7)))) == []
    assert standing(bank)[0] is Verdict.HEALTHY


def test_a_layer_below_the_floor_is_nobodys_matter() -> None:
    usual = {**USUAL, "tiny": 0.02}
    assert of(feed(make_bank(), shifted(layered(800, 8, usual=usual), "tiny", 4.0))) == []


def test_what_it_cannot_judge_is_unknown_and_says_why() -> None:
    bank = make_bank()
    assert standing(bank) == (Verdict.UNKNOWN, "no grad_norm/LAYER is logged")
    feed(bank, [row(1, loss=3.0, grad_norm=0.3, lr=1e-3, loss_scale=1.0)])
    assert standing(bank) == (Verdict.UNKNOWN, "no grad_norm/LAYER is logged")
    three = {"embed": 1.0, "block-00": 1.0, "head": 1.0}
    feed(bank, layered(300, 1, first=2, usual=three))
    assert standing(bank) == (Verdict.UNKNOWN, "only 3 layers have a grad_norm/LAYER, 4 are needed")
    feed(bank, layered(400, 1, first=301))
    assert standing(bank) == (Verdict.UNKNOWN, "too little history to know the layers' usual shares")
    feed(bank, layered(700, 1, first=401))
    assert standing(bank)[0] is Verdict.HEALTHY
    feed(bank, (row(step, loss=3.0) for step in range(701, 710)))
    assert standing(bank) == (Verdict.UNKNOWN, "grad_norm/LAYER is missing since step 700")


def test_norms_logged_every_tenth_step_are_judged() -> None:
    rows = [r if r.step % 10 == 0 else row(r.step, loss=r.metrics["loss"]) for r in shifted(layered(4500, 9), "head", 3.0, 4000)]
    bank = make_bank()
    (finding,) = of(feed(bank, rows))
    assert 4050 <= finding.detected_step <= 4150
    assert standing(bank)[0] is Verdict.BREACHED


def test_coarse_logging_is_judged_too() -> None:
    (finding,) = of(feed(make_bank(), shifted(layered(30_000, 10, every=50), "head", 3.0, 25_000)))
    assert 25_000 <= finding.detected_step <= 26_000


def test_the_past_is_learned_at_a_resume_and_the_grace_is_neither_judged_nor_learned() -> None:
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 0.0)
    past = tuple(dataclasses.replace(r, attempt=2) for r in layered(500, 11))
    bank.receipt(receipt(2, 500, history=past), 0.0)
    coming = [dataclasses.replace(r, attempt=2) for r in shifted(layered(650, 12, first=501), "head", 3.0, 510)]
    assert of(feed(bank, [r for r in coming if r.step <= 550])) == []
    assert standing(bank) == (Verdict.UNKNOWN, "not judged in the grace, which ends at step 550")
    (finding,) = of(feed(bank, [r for r in coming if r.step > 550]))
    assert (finding.onset_step, finding.metric) == (551, "grad_norm/head")


def test_other_settings_are_other_shares() -> None:
    def rate(step: int) -> float:
        return 3e-4 if step < ONSET else 1e-4

    rows = shifted(layered(700, 13), "head", 3.0)
    bank = make_bank()
    assert of(feed(bank, (dataclasses.replace(r, metrics={**r.metrics, "lr": rate(r.step)}) for r in rows))) == []
    assert standing(bank)[0] is Verdict.UNKNOWN


def test_other_layers_are_learned_anew() -> None:
    bank = make_bank()
    feed(bank, layered(500, 14))
    more = {**USUAL, "block-04": 3.0}
    assert of(feed(bank, layered(600, 14, first=501, usual=more))) == []
    assert standing(bank)[0] is Verdict.UNKNOWN
    (finding,) = of(feed(bank, shifted(layered(1000, 14, first=601, usual=more), "block-04", 2.5, 900)))
    assert finding.metric == "grad_norm/block-04"


def test_of_very_many_layers_the_first_are_judged_and_that_is_said() -> None:
    usual = {f"block-{place:03d}": 1.0 for place in range(LAYERS_MAX + 10)}
    bank = make_bank()
    feed(bank, layered(250, 15, usual=usual))
    assert standing(bank)[1].startswith(f"{LAYERS_MAX} layers, of {LAYERS_MAX + 10}; the farthest: block-")


def test_the_policys_settings_count() -> None:
    off = config(layer_imbalance=LayerImbalanceSettings(enabled=False))
    bank = DetectorBank(off, {}, {})
    bank.begin_attempt(1, 0.0)
    assert of(feed(bank, shifted(layered(800, 16), "head", 3.0))) == []
    assert standing(bank) == (Verdict.UNKNOWN, "switched off by policy")
    strict = DetectorBank(config(layer_imbalance=LayerImbalanceSettings(factor=20.0)), {}, {KIND: "warning"})
    strict.begin_attempt(1, 0.0)
    assert of(feed(strict, shifted(layered(800, 16), "block-03", 3.0))) == []
    loud = DetectorBank(config(), {}, {KIND: "warning"})
    loud.begin_attempt(1, 0.0)
    assert [f.severity for f in of(feed(loud, shifted(layered(700, 16), "head", 3.0)))] == ["warning"]
