"""What a jump of the learning rate does to the bank: levels are cut, a bump is excused, and nothing is blinded."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.model.findings import Kind, Verdict
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import alarms, clean_run, feed, hurt, make_bank, row

JUMP_AT = 700


def rows(steps: int, factor: float, rise: float) -> Iterator[StepReading]:
    """A run whose rate jumps by `factor` at JUMP_AT, and whose loss then stands `rise` higher (relative)."""
    for reading in clean_run(steps, 4, noise=0.01):
        if reading.step < JUMP_AT:
            yield reading
            continue
        metrics = dict(reading.metrics)
        yield row(
            reading.step, loss=metrics["loss"] * (1.0 + rise), grad_norm=metrics["grad_norm"], lr=metrics["lr"] * factor
        )  # fmt: skip


def test_a_higher_level_after_the_rate_rose_is_no_alarm_and_without_a_jump_it_is() -> None:
    assert alarms(feed(make_bank(), rows(1400, 2.0, 0.06))) == []
    assert [f.kind for f in alarms(feed(make_bank(), rows(1400, 1.0, 0.06)))] == [Kind.SPIKE]
    assert Kind.DIVERGENCE in {f.kind for f in alarms(feed(make_bank(), rows(1400, 1.0, 0.1)))}


def test_a_level_that_stays_high_outlasts_the_grace() -> None:
    assert [(f.kind, f.detected_step) for f in alarms(feed(make_bank(), rows(1400, 2.0, 0.1)))] == [(Kind.SPIKE, JUMP_AT + 52)]


def test_a_spike_after_the_jump_is_found_with_the_grace_and_without() -> None:
    for at in (JUMP_AT + 5, JUMP_AT + 200):
        for factor in (0.1, 3.0):
            found = alarms(feed(make_bank(), hurt(rows(1000, factor, 0.0), at, at + 10, loss=2.0)))
            assert [f.onset_step for f in found if f.kind is Kind.SPIKE] == [at]


def test_the_slow_detectors_say_that_they_do_not_know_after_the_rate_rose() -> None:
    bank = make_bank()
    feed(bank, rows(JUMP_AT + 20, 2.0, 0.0))
    verdicts = bank.verdicts()
    assert verdicts[Kind.DIVERGENCE][0] is Verdict.UNKNOWN
    assert verdicts[Kind.DRIFT][0] is Verdict.UNKNOWN
    assert verdicts[Kind.SPIKE][0] is Verdict.HEALTHY


def test_a_divergence_is_found_again_once_there_is_a_new_past() -> None:
    climbing = [
        row(r.step, **(dict(r.metrics) | {"loss": r.metrics["loss"] + 0.004 * max(0, r.step - 1000)}))
        for r in rows(1300, 2.0, 0.0)
    ]
    found = alarms(feed(make_bank(), climbing))
    assert found
    assert 1000 < found[0].detected_step < 1120
