"""Facts about pages. Who was told on which route stands in the `ActionDecided` of a `SendPage`, and in what became of it.
How facts work is said in `facts`."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.findings import Severity
from sentinel.model.recorded import recorded_as


@recorded_as("PageRaised")
@dataclass(frozen=True, slots=True)
class PageRaised:
    """A person is needed, or the page of that incident says something else now. `anew`: whoever was told is told again, and an
    acknowledgement does not hold for it."""

    incident: int
    severity: Severity
    title: str
    text: str
    anew: bool = True


@recorded_as("PageResolved")
@dataclass(frozen=True, slots=True)
class PageResolved:
    """Nobody is needed any more. `by`: who has taken it up; empty where nobody had to."""

    incident: int
    reason: str
    by: str = ""
