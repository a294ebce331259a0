"""A step may have several lines: what a later one adds is judged as the first one is, and what it repeats changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import nan

import pytest

from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import clean_run, feed, hurt, make_bank, row


def apart(rows: Iterable[StepReading], *later: str) -> Iterable[StepReading]:
    """The same rows, the metrics `later` of each on a line of their own behind it."""
    for reading in rows:
        metrics = dict(reading.metrics)
        behind = {name: metrics.pop(name) for name in later if name in metrics}
        yield replace(reading, metrics=metrics)
        yield replace(reading, metrics=behind)


@pytest.mark.parametrize("name", ["param_norm", "grad_norm/block-00", "loss"])
def test_a_number_that_is_none_is_seen_in_any_line_of_its_step(name: str) -> None:
    bank = make_bank()
    rows = [row(step, grad_norm=0.5) for step in range(1, 30)]
    assert feed(bank, rows) == []
    found = bank.step(row(29, **{name: nan}), 30.0)
    assert [(one.kind, one.metric, one.onset_step) for one in found] == [(Kind.NON_FINITE, name, 29)]
    assert bank.step(row(29, **{name: nan}), 31.0) == (), "the same once more"


def test_a_number_that_was_told_before_is_not_told_anew() -> None:
    bank = make_bank()
    feed(bank, [row(step, loss=2.0) for step in range(1, 30)])
    assert bank.step(row(29, loss=nan), 30.0) == ()
    assert bank.step(row(28, param_norm=nan), 30.0) == (), "of an older step nothing counts"


@pytest.mark.parametrize("later", [("loss",), ("grad_norm",), ("loss", "grad_norm")])
def test_a_spike_is_found_at_its_step_whichever_line_it_stands_on(later: tuple[str, ...]) -> None:
    def known(rows: Iterable[StepReading]) -> list[tuple[Kind, int, int]]:
        found: list[Finding] = feed(make_bank(), rows)
        return [(one.kind, one.onset_step or 0, one.detected_step) for one in found if one.kind is Kind.SPIKE]

    together = list(hurt(clean_run(400, 7), 300, 310, loss=3.0, norm=20.0))
    assert known(together)
    assert known(apart(together, *later)) == known(together)


def test_the_next_attempt_begins_with_no_line() -> None:
    bank = make_bank()
    feed(bank, [row(5, loss=2.0), row(5, param_norm=1.0)])
    bank.begin_attempt(2, 10.0)
    feed(bank, [row(5, attempt=2, loss=2.0)])
    assert [one.metric for one in bank.step(row(5, attempt=2, param_norm=nan), 11.0)] == ["param_norm"]


def test_the_row_of_a_resume_step_is_of_the_past() -> None:
    bank = make_bank()
    bank._cut(1, 40)
    assert bank.step(row(40, param_norm=nan), 1.0) == ()
