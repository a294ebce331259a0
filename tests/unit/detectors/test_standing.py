"""Unknown is said, never assumed healthy: before history, without the metric, behind a blind source, in a grace, without run."""

from __future__ import annotations

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.registry import MAKER_OF
from sentinel.model.findings import Kind, Verdict
from sentinel.model.metrics import BY_NAME, METRICS, is_family, shown_name
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import clean_run, feed, make_bank, receipt, row

LAYERS = ("embed", "block-00", "block-01", "head")
DECLARED = {kind: detector.needs for kind, detector in make_bank()._by_kind.items()}
# Judged from more than these rows: a reference, busy times, checkpoints, the machine; tested where they live. Of the others
# `hang` sees the silence of the stream, and `slowdown` wants minutes.
OTHERS = frozenset(
    kind for kind in DECLARED if MAKER_OF[kind].wants or MAKER_OF[kind].source not in ("metrics", "signs of life")
) | {Kind.SLOWDOWN}
BY_ONE_ROW = {Kind.NON_FINITE}  # judged from the first row on, by a fixed limit and without a past
STEP_KINDS = tuple(kind for kind in make_bank().verdicts() if kind is not Kind.HANG and kind not in OTHERS)


def everything() -> dict[str, float]:
    """A calm value of each known metric, and of whatever a detector needs besides."""
    names = {metric.name for metric in METRICS} | {name for needs in DECLARED.values() for name in needs}
    single = {name: 0.0 if name in BY_NAME and BY_NAME[name].is_exact else 1.0 for name in names if not is_family(name)}
    return single | {f"{name}{layer}": 0.1 for name in names if is_family(name) for layer in LAYERS} | {"loss_scale": 1024.0}


EVERYTHING = everything()


def full_rows(steps: int, without: tuple[str, ...] = (), first: int = 1) -> list[StepReading]:
    """`without`: metrics, and families, that no row holds."""
    families = tuple(filter(is_family, without))
    rows = []
    for reading in clean_run(steps, 2, noise=0.02):
        metrics = {**EVERYTHING, **reading.metrics, "val_loss": reading.metrics["loss"]}
        if reading.step >= first:
            logged = {name: value for name, value in metrics.items() if name not in without and not name.startswith(families)}
            rows.append(row(reading.step, **logged))
    return rows


def unknown(bank: DetectorBank, **blind: str) -> dict[Kind, str]:
    standing = bank.verdicts(blind).items()
    return {kind: reason for kind, (verdict, reason) in standing if verdict is Verdict.UNKNOWN and kind not in OTHERS}


def test_with_everything_logged_long_enough_all_is_known_and_healthy() -> None:
    bank = make_bank()
    feed(bank, full_rows(1000))
    bank.tick(1001.0)
    assert unknown(bank) == {}
    assert {verdict for kind, (verdict, _) in bank.verdicts().items() if kind not in OTHERS} == {Verdict.HEALTHY}


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_before_there_is_a_past_nothing_but_the_numbers_themselves_is_known(steps: int) -> None:
    bank = make_bank()
    feed(bank, full_rows(steps))
    known = set(bank.verdicts()) - OTHERS - set(unknown(bank))
    needs_past, silent = known - BY_ONE_ROW, BY_ONE_ROW - known
    assert not needs_past, (
        f"{sorted(needs_past)}: known after {steps} rows. `verdict` is Verdict.UNKNOWN until there is a past to judge by. "
        "Where a fixed limit judges a row by itself, add the kind to BY_ONE_ROW; it is unknown until its first row"
    )
    assert not (known and steps == 0), f"{sorted(known)}: known before the first row; `verdict` is Verdict.UNKNOWN until then"
    assert not (silent and steps), f"{sorted(silent)}: in BY_ONE_ROW, and still unknown after {steps} rows"
    assert all(unknown(bank).values())


def test_after_a_resume_the_rows_before_it_are_no_verdict_on_the_attempt() -> None:
    """The bank sees that the metric is logged; whether a row of this attempt was judged, only the detector knows."""
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 0.0)
    bank.receipt(receipt(2, resume_step=5, history=tuple(full_rows(5))), 0.0)
    known = set(bank.verdicts()) - OTHERS - set(unknown(bank))
    assert not known, (
        f"{sorted(known)}: known before the first row of the attempt. `begin` forgets what was judged; `verdict` is "
        "Verdict.UNKNOWN until `step` has judged a row, also with a fixed limit"
    )


@pytest.mark.parametrize(("metrics", "kinds"), [
    (("loss",), {Kind.DIVERGENCE, Kind.TOO_GOOD, Kind.PLATEAU, Kind.GENERALISATION}),
    (("loss", "grad_norm"), {Kind.SPIKE, Kind.DRIFT, Kind.DIVERGENCE, Kind.TOO_GOOD, Kind.PLATEAU, Kind.GENERALISATION}),
    (("val_loss",), {Kind.GENERALISATION}),
    (("loss_scale",), {Kind.LOSS_SCALE_COLLAPSE}),
    (("update_norm", "adam_v_max", "logit_max", "activation_norm"), {Kind.PRECURSOR}),
    (("grad_norm/",), {Kind("layer_imbalance")}),
    (("loss_scale", "activation_norm", "grad_norm", "param_norm", "clip_fraction"), {Kind("trend"), Kind.LOSS_SCALE_COLLAPSE}),
])  # fmt: skip
def test_what_is_not_logged_is_not_known(metrics: tuple[str, ...], kinds: set[Kind]) -> None:
    """Besides the kinds named here, of those that came later each that declares to need nothing else."""
    bank = make_bank()
    feed(bank, full_rows(1000, without=metrics))
    bank.tick(1001.0)
    declared = {kind for kind, needs in DECLARED.items() if needs and needs <= set(metrics)}
    assert kinds <= set(unknown(bank))
    assert set(unknown(bank)) == kinds | declared


@pytest.mark.parametrize("kind", [kind for kind, needs in DECLARED.items() if needs and kind not in OTHERS])
def test_a_detector_without_all_that_it_needs_names_what_is_missing(kind: Kind) -> None:
    bank = make_bank()
    feed(bank, full_rows(1000, without=tuple(DECLARED[kind])))
    assert unknown(bank)[kind] == "; ".join(f"no {shown_name(name)} is logged" for name in sorted(DECLARED[kind]))


def test_a_metric_that_stopped_coming_is_not_healthy_for_ever() -> None:
    bank = make_bank()
    feed(bank, full_rows(1000))
    feed(bank, full_rows(1020, without=("loss", "grad_norm"), first=1001))
    said = unknown(bank)
    assert said[Kind.DIVERGENCE] == "loss is missing since step 1000"
    assert said[Kind.SPIKE] == "grad_norm is missing since step 1000; loss is missing since step 1000"
    assert {Kind.DRIFT, Kind.TOO_GOOD, Kind.PLATEAU} <= set(said)


def test_one_of_two_streams_missing_is_said_beside_the_other() -> None:
    bank = make_bank()
    feed(bank, full_rows(1000, without=("grad_norm",)))
    verdict, reason = bank.verdicts()[Kind.SPIKE]
    assert verdict is Verdict.HEALTHY
    assert "grad_norm unknown: not logged" in reason


def test_behind_a_blind_source_nothing_is_known_and_what_was_breached_stays_so() -> None:
    bank = make_bank()
    feed(bank, full_rows(1000))
    bank.tick(1001.0)
    assert set(unknown(bank, metrics="permission denied")) == {*STEP_KINDS, Kind.HANG}
    assert unknown(bank, metrics="permission denied")[Kind.SPIKE] == "metrics cannot be seen: permission denied"
    assert set(unknown(bank, heartbeats="gone")) == {Kind.HANG}
    feed(bank, [row(step, loss=9.0, grad_norm=0.4) for step in range(1001, 1004)])
    assert bank.verdicts({"metrics": "gone"})[Kind.SPIKE][0] is Verdict.BREACHED


def test_without_a_running_attempt_nothing_is_known() -> None:
    bank = make_bank()
    feed(bank, full_rows(1000))
    bank.end_attempt()
    assert set(bank.verdicts().values()) == {(Verdict.UNKNOWN, "no attempt is running")}


def test_in_the_grace_after_a_resume_the_slow_detectors_say_so() -> None:
    bank = make_bank(begun=False)
    bank.begin_attempt(2, 0.0)
    bank.receipt(receipt(2, resume_step=500, history=tuple(full_rows(500))), 0.0)
    feed(bank, [StepReading(2, r.step, r.time_s, r.samples, r.metrics) for r in full_rows(520, first=501)])
    said = unknown(bank)
    assert said[Kind.DRIFT] == said[Kind.DIVERGENCE] == "not judged in the grace, which ends at step 550"
    assert Kind.SPIKE not in said


def test_a_scale_that_scales_nothing_and_one_that_is_searched_for_are_unknown() -> None:
    for scale, steps, word in ((1.0, 400, "nothing is scaled"), (1024.0, 50, "searched for")):
        bank = make_bank()
        feed(bank, [row(step, loss=2.0, loss_scale=scale) for step in range(1, steps)])
        assert word in unknown(bank)[Kind.LOSS_SCALE_COLLAPSE]


def test_an_empty_row_is_no_proof_of_health() -> None:
    bank = make_bank()
    feed(bank, [row(1), row(2)])
    assert unknown(bank)[Kind.NON_FINITE] == "the newest row holds no values"


def test_a_young_run_says_until_when_it_cannot_be_judged() -> None:
    bank = make_bank()
    feed(bank, full_rows(30))
    verdict, reason = bank.verdicts()[Kind.SPIKE]
    assert verdict is Verdict.UNKNOWN
    assert "too little history until step 101" in reason


def test_divergence_and_drift_say_until_when_too() -> None:
    for every, until in ((1, {Kind.DIVERGENCE: 100, Kind.DRIFT: 201}), (2, {Kind.DIVERGENCE: 200, Kind.DRIFT: 202})):
        bank = make_bank()
        feed(bank, clean_run(30 * every, 2, every=every))
        assert {kind: unknown(bank)[kind] for kind in until} == {
            kind: f"too little history until step {step}" for kind, step in until.items()
        }
        feed(bank, (reading for reading in clean_run(60, 2, every=1) if reading.step > 30 * every))
        if every == 1:
            assert unknown(bank)[Kind.DIVERGENCE] == "too little history until step 100, until then by wider bounds"
        feed(bank, (reading for reading in clean_run(160, 2, every=every) if reading.step > max(60, 30 * every)))
        assert Kind.DRIFT in unknown(bank), "it judges from its min_history on"


def test_a_coarse_log_wakes_later_than_its_steps_say() -> None:
    bank = make_bank()
    feed(bank, clean_run(1000, 2, every=100))
    assert "too little history until step 3300" in bank.verdicts()[Kind.SPIKE][1]
    feed(bank, (reading for reading in clean_run(7000, 2, every=100) if reading.step > 1000))
    assert bank.verdicts()[Kind.SPIKE][0] is Verdict.HEALTHY
    assert unknown(bank)[Kind.DRIFT] == "logged too coarsely to see a climb within the window"
