"""Which numbers of a whole checkpoint hold."""

from __future__ import annotations

from math import inf, nan

import pytest

from sentinel.model.records import SavedNorm, SavedNumbers
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
