"""What a repetition proves, from two records of the same steps."""

from __future__ import annotations

import pytest

from sentinel.model.attempts import SampleRange
from sentinel.model.readings import StepReading
from sentinel.model.records import Comparison
from sentinel.plan.diagnosis import compare, judge_diagnosis

NAN = float("nan")


def row(step: int, loss: float, samples: int = 0, **metrics: float) -> StepReading:
    spans = (SampleRange(samples or step * 16, (samples or step * 16) + 16),)
    return StepReading(1, step, float(step), spans, {"loss": loss, "tokens_per_s": loss * 7, **metrics})


def rows(*values: float) -> dict[int, StepReading]:
    return {step: row(step, value) for step, value in enumerate(values, 1)}


def test_equal_records_are_counted_and_timings_do_not_matter() -> None:
    old, new = rows(2.0, 1.9, NAN), rows(2.0, 1.9, NAN)
    new[2] = StepReading(4, 2, 999.0, old[2].samples, {"loss": 1.9, "tokens_per_s": 5.0})
    assert compare(old, new, 1, 3) == Comparison(3)


def test_the_first_difference_is_named_with_both_numbers() -> None:
    assert compare(rows(2.0, 1.9, 1.8), rows(2.0, 1.9, 1.80000001), 1, 3) == Comparison(3, 3, "loss", 1.8, 1.80000001)


def test_ranks_whose_own_numbers_differ_are_blamed() -> None:
    old = {3: row(3, 2.0, **{"param_norm/rank-0": 1.0, "param_norm/rank-1": 5.0})}
    new = {3: row(3, 2.5, **{"param_norm/rank-0": 1.0, "param_norm/rank-1": 9.0})}
    assert compare(old, new, 1, 5).ranks == (1,)


def test_other_samples_are_no_evidence_about_numbers() -> None:
    assert compare({1: row(1, 2.0, 16)}, {1: row(1, 2.1, 32)}, 1, 1).metric == "samples"


def test_steps_only_one_has_are_not_compared() -> None:
    assert compare(rows(2.0), rows(2.0, 1.9), 1, 2) == Comparison(1)
    assert compare({}, rows(2.0), 1, 2) == Comparison(0)


@pytest.mark.parametrize(
    ("found", "struck", "deterministic", "cause"),
    [
        (None, True, True, "unknown"),
        (Comparison(0), False, True, "unknown"),
        (Comparison(9, 4, "samples"), True, True, "unknown"),
        (Comparison(60), True, True, "data"),
        (Comparison(60), True, False, "data"),
        (Comparison(60), False, True, "unknown"),
        (Comparison(5, 80, "loss", 2.0, 2.1), True, True, "hardware"),
        (Comparison(5, 80, "loss", 2.0, 2.1), True, False, "unknown"),
        (Comparison(5, 90, "loss", 9.0, 2.1, (1,)), False, True, "hardware"),
        (Comparison(5, 90, "loss", 9.0, 2.1), False, False, "transient"),
        (Comparison(5, 93, "loss", 9.0, 9.1), True, True, "data"),
    ],
)
def test_what_it_proves(found: Comparison | None, struck: bool, deterministic: bool, cause: str) -> None:
    """The onset is step 90."""
    said = judge_diagnosis(found, 90, struck, deterministic)
    assert said.cause == cause
    assert ("it failed again" if struck else "it did not fail again") in said.reason
    if found is not None and found.ranks:
        assert said.ranks == (1,)
        assert "rank 1" in said.reason
