"""`replace` of the model's records is that of `dataclasses`, only quicker."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.changed import _slots_of, replace
from sentinel.model.incidents import Incident
from sentinel.model.paging import IncidentPage
from sentinel.model.state import Attempt, Checkpoint, RunState

STATE = RunState(run_id="r", attempts=(Attempt(1, 2.0, None, SettingsInForce(), "first launch"),))


@dataclass(frozen=True)
class WithoutSlots:
    one: int
    two: int = 2


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (STATE, {}),
        (STATE, {"held": "a person", "attempts": ()}),
        (STATE.attempts[0], {"last_step": 7, "resume": None}),
        (Checkpoint(5, "checkpoints/step-00000005", 1, 80), {"condemned": "rotten"}),
        (SampleRange(3, 9), {"end": 12}),
        (WithoutSlots(1), {"two": 3}),
    ],
)
def test_it_gives_what_dataclasses_gives_and_leaves_the_old_record_alone(record: Any, changes: dict[str, Any]) -> None:
    before = repr(record)
    made = replace(record, **changes)
    assert made == dataclasses.replace(record, **changes)
    assert type(made) is type(record)
    assert made is not record
    assert repr(record) == before


def test_a_new_record_is_as_frozen_as_the_old() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(STATE, held="x").held = "y"  # type: ignore[misc]


@pytest.mark.parametrize("record", [STATE, WithoutSlots(1)])
def test_a_field_that_it_does_not_have_is_refused(record: Any) -> None:
    with pytest.raises(TypeError, match="nonsense"):
        replace(record, nonsense=1)


def test_a_record_that_checks_itself_is_still_checked() -> None:
    with pytest.raises(AssertionError, match="empty or negative sample range"):
        replace(SampleRange(3, 9), end=3)


@pytest.mark.parametrize("kind", [RunState, Attempt, Checkpoint, Incident, IncidentPage])
def test_the_records_that_every_fact_changes_take_the_quick_way(kind: type) -> None:
    assert _slots_of(kind) is not None
