"""Which checkpoint to start from: never past an open numeric onset, and as far back as was asked where there is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident
from sentinel.model.state import Checkpoint
from sentinel.plan.rollback import choose_before, choose_newest


def kept(*steps: int, condemned: tuple[int, ...] = ()) -> list[Checkpoint]:
    return [Checkpoint(s, f"p{s}", 1, 0, None, "bad" if s in condemned else "") for s in steps]


def broke(onset: int | None, kind: Kind = Kind.SPIKE, earliest: int | None = None) -> Incident:
    return Incident(1, kind, "critical", "A", "p", 1, onset, 80, 80, 0, 0, "x", earliest_step=earliest)


@pytest.mark.parametrize(
    ("steps", "condemned", "incidents", "wanted"),
    [
        ((10, 20, 30), (), [], 30),
        ((10, 20, 30), (30,), [], 20),
        ((10, 20, 30), (), [broke(30)], 20),
        ((10, 20, 30), (), [broke(31)], 30),
        ((10, 20, 30), (), [broke(31, Kind.NON_FINITE)], 20),
        ((10, 20, 30), (), [broke(31), broke(20)], 10),
        ((10, 20, 30), (), [broke(31, earliest=15)], 10),
        ((10, 20, 30), (), [broke(None, Kind.CRASH)], 30),
        ((10, 20, 30), (10, 20, 30), [], 0),
        ((10,), (), [broke(5)], 0),
        ((), (), [], 0),
    ],
)
def test_the_newest_usable(steps: tuple[int, ...], condemned: tuple[int, ...], incidents: list[Incident], wanted: int) -> None:
    choice = choose_newest(kept(*steps, condemned=condemned), incidents)
    assert choice.step == wanted
    assert (choice.checkpoint is None) == (wanted == 0)
    assert ("start from scratch" in choice.reason) == (wanted == 0)


@pytest.mark.parametrize(
    ("steps", "onset", "margin", "limit", "wanted"),
    [
        ((10, 20, 30, 40), 41, 20, None, 20),
        ((10, 20, 30, 40), 40, 20, None, 20),
        ((30, 40), 41, 20, None, 30),  # none is far enough: the oldest clean one
        ((30, 40), 41, 41, None, 0),  # asked for further back than there are steps
        ((10, 20, 30, 40), 41, 1, 35, 30),
        ((10, 20, 30, 40), 41, 20, 15, 10),
        ((50,), 41, 5, None, 0),
    ],
)
def test_before_the_onset(steps: tuple[int, ...], onset: int, margin: int, limit: int | None, wanted: int) -> None:
    assert choose_before(kept(*steps), onset, margin, limit).step == wanted


@given(st.sets(st.integers(1, 200), max_size=20), st.integers(1, 200), st.integers(1, 300), st.integers(1, 200))
def test_no_choice_ever_lies_at_or_past_the_onset_or_the_limit(steps: set[int], onset: int, margin: int, limit: int) -> None:
    assert choose_before(kept(*steps), onset, margin, limit).step < min(onset, limit)
    assert choose_newest(kept(*steps), [broke(onset), broke(limit)]).step < min(onset, limit)
