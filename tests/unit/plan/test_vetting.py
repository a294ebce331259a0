"""Which numbers of a whole checkpoint hold."""

from __future__ import annotations

from math import inf, nan

import pytest

from sentinel.model.saved import BadTensor, SavedNorm, SavedNumbers, SavedValues
from sentinel.plan.checkpoint_validation import judge_numbers


def rows(first: int, last: int, value: float = 30.0, change: float = 0.01) -> tuple[tuple[int, float], ...]:
    """The norm before each update: row s+1 tells of what update s left."""
    return tuple((step, value + change * step) for step in range(first, last + 1))


def saved(
    norm: float, recorded: tuple[tuple[int, float], ...] = (), older: SavedNorm | None = None, **numbers: float
) -> SavedNumbers:
    told = {"param_norm": norm, "nonfinite": 0.0, **numbers}
    return SavedNumbers("d", "3 files match", tuple(told.items()), SavedNorm(100, norm, recorded), older)


SOUND = SavedNorm(75, 30.76, rows(56, 76))
OFF = SavedNorm(75, 15.0, rows(56, 76))


def test_a_manifest_without_numbers_is_judged_by_its_bytes() -> None:
    verdict = judge_numbers(SavedNumbers("d", "3 files match"))
    assert (verdict.evidence, verdict.reason) == ("", "3 files match; its manifest tells no numbers")


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"nonfinite": 3.0}, "elements of its state that are not finite: 3"),
        ({"nonfinite": nan}, "not finite: nan"),
        ({"param_norm": inf}, "param_norm of its state is inf"),
        ({"param_norm": nan}, "param_norm of its state is nan"),
        ({"adam_v_norm": nan}, "adam_v_norm of its state is nan"),
    ],
)
def test_a_state_that_is_not_finite_is_condemned_whatever_was_recorded(numbers: dict[str, float], says: str) -> None:
    verdict = judge_numbers(
        saved(**({"norm": 31.01} | numbers) if "param_norm" not in numbers else {"norm": numbers["param_norm"]})
    )
    assert verdict.evidence == "numbers"
    assert says in verdict.reason


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_where_the_save_stood_condemns_nothing(name: str) -> None:
    """The gradient of an update that was left out is infinite, and the state is as it was."""
    assert judge_numbers(saved(31.01, rows(80, 101), SOUND, **{name: inf})).evidence == ""


@pytest.mark.parametrize(
    ("norm", "recorded", "evidence"),
    [
        (31.01, rows(80, 101), ""),  # row 101 tells of it exactly
        (31.00, rows(80, 101), ""),  # a trainer that writes the norm after the update
        (31.01, rows(80, 100), ""),  # it died before the next row
        (31.01, rows(0, 100)[::20], ""),  # every 20th step is logged
        (31.01 * 1.004, rows(80, 101), ""),  # cut to bf16, every element the same way
        (31.01 * 0.99, rows(80, 101), "norm"),  # a shard of fifty is missing
        (31.01 * 0.9, rows(80, 101), "norm"),
        (31.01 * 1.02, rows(80, 101), "norm"),
        (0.0, rows(80, 101), "norm"),
    ],
)
def test_the_norm_continues_what_was_recorded(norm: float, recorded: tuple[tuple[int, float], ...], evidence: str) -> None:
    verdict = judge_numbers(saved(norm, recorded, SOUND))
    assert verdict.evidence == evidence, verdict.reason
    assert "recorded" in verdict.reason
    assert f"param_norm {norm:.6g}" in verdict.reason


def test_a_norm_that_moves_fast_may_have_moved() -> None:
    fast = rows(80, 100, value=10.0, change=0.5)
    assert judge_numbers(saved(10.0 + 0.5 * 103, fast, SOUND)).evidence == ""
    assert judge_numbers(saved(10.0 + 0.5 * 115, fast, SOUND)).evidence == "norm"


@pytest.mark.parametrize("recorded", [(), rows(99, 100), ((98, nan), (99, inf), (100, nan), (101, 31.01))])
def test_too_little_recorded_proves_nothing(recorded: tuple[tuple[int, float], ...]) -> None:
    assert judge_numbers(saved(15.0, recorded, SOUND)).evidence == ""


@pytest.mark.parametrize(
    ("older", "says"),
    [
        (None, "no older one shows that both mean the same"),
        (OFF, "both mean something else"),
        (SavedNorm(75, 15.0), "no older one"),
    ],
)
def test_a_trainer_that_means_something_else_by_it_loses_no_checkpoint(older: SavedNorm | None, says: str) -> None:
    verdict = judge_numbers(saved(15.5, rows(80, 101), older))
    assert verdict.evidence == ""
    assert says in verdict.reason


def counted(*bad: BadTensor, values: int = 5000, unread: tuple[str, ...] = ()) -> SavedNumbers:
    return SavedNumbers("d", "3 files match", values=SavedValues(2, values, bad, unread=unread))


NANS = BadTensor("model.safetensors", "layer.3.weight", 1 << 20, nan=16, infinite=1, has_number=True)
MASK = BadTensor("model.pt", "mask", 16, nan=0, infinite=6, has_number=False)
SCORE = BadTensor("model.pt", "best", 1, nan=1, infinite=0, has_number=False)


def test_weights_that_are_not_finite_are_told_with_their_place() -> None:
    verdict = judge_numbers(counted(MASK, NANS))
    assert verdict.evidence == "numbers"
    assert verdict.reason == "17 of 1,048,576 values of model.safetensors (layer.3.weight) are not finite"
    other = BadTensor("b.pt", "w", 9, nan=0, infinite=2, has_number=True)
    assert judge_numbers(counted(NANS, other)).reason.endswith("are not finite, and some of 1 more tensor")
    told = SavedNumbers("d", "3 files match", (("param_norm", 3.0), ("nonfinite", 0.0)), values=SavedValues(1, 9, (other,)))
    assert judge_numbers(told).reason == "2 of 9 values of b.pt (w) are not finite", "what lies there, not what a manifest says"


def test_values_that_were_all_counted_are_known_to_be_finite() -> None:
    verdict = judge_numbers(counted())
    assert (verdict.evidence, verdict.is_known) == ("", True)
    assert verdict.reason == "3 files match; its manifest tells no numbers; all 5,000 values of its tensors are finite"


def test_masks_and_single_values_damage_nothing() -> None:
    verdict = judge_numbers(counted(MASK, SCORE))
    assert (verdict.evidence, verdict.is_known) == ("", True)
    assert verdict.reason.endswith("7 of 5,000 values of its tensors are not finite, in masks and single values alone")


@pytest.mark.parametrize("values", [0, 5000])
def test_what_was_not_counted_stays_unknown(values: int) -> None:
    verdict = judge_numbers(counted(values=values, unread=("a.h5: its format is not known", "b.h5: its format is not known")))
    assert (verdict.evidence, verdict.is_known) == ("", False)
    assert verdict.reason.endswith("not counted: a.h5: its format is not known (and 1 more)")
    assert not judge_numbers(SavedNumbers("d", "3 files match", values=SavedValues(0, 0))).is_known, "no tensor was there"
