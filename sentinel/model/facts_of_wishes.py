"""Facts about what people ask of a run. How facts work is said in `facts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.model.operator_requests import Wish
from sentinel.model.recorded import recorded_as


@recorded_as("WishAnswered")
@dataclass(frozen=True, slots=True)
class WishAnswered:
    """A person asked; `answer` is the sentence they read. Refused wishes are on record too, and change nothing."""

    id: str
    by: str
    wish: Wish
    granted: bool
    answer: str


@recorded_as("ApprovalAsked")
@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A rung waits for a person until `deadline_s` (supervisor time); then `otherwise` holds."""

    incident: int
    rung: int
    deadline_s: float
    otherwise: Literal["approve", "deny"]
    reason: str


@recorded_as("OverridesAnswered")
@dataclass(frozen=True, slots=True)
class OverridesAnswered:
    """The living trainer answered the live change `id` at `step`; `not_in_force` are the keys it could not obey. `whole`: nothing
    of it is in force, and what was before still is."""

    attempt: int
    id: str
    step: int
    not_in_force: tuple[str, ...] = ()
    whole: bool = False
