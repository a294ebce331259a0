"""The one page of an incident: what it says, since when it is open, who was called on which route, and who answered.

    raised ──▶ sent, repeated, escalated ──▶ acknowledged ──▶ resolved        raised again: everybody is called once more
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.actions import Stage
from sentinel.model.findings import Severity


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """How one route stands. A page goes out on it one sending after the other.

    Attributes:
        sent: sendings decided so far; their keys count them.
        number, version: the raising it was last triggered for, and the version of the page it last got.
        triggered_s: when the newest trigger was decided.
        under_way: what is being sent; None when nothing is.
        delivered, delivered_s: the raising of which a trigger was last delivered, and when.
        is_open: a trigger was sent and may have arrived, and no resolve was sent since.
        acknowledged: the acknowledgement of the present raising was sent on it.
        failed: the newest trigger could not be delivered. trouble: why the newest sending could not; empty where it could.
    """

    route: str
    sent: int = 0
    number: int = 0
    version: int = 0
    triggered_s: float = 0.0
    under_way: Stage | None = None
    delivered: int = 0
    delivered_s: float | None = None
    is_open: bool = False
    acknowledged: bool = False
    failed: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """Attributes:
    number: how often it was raised, because it had been resolved, or what was acknowledged was something else.
    version: of its words, counted over all raisings.
    resolved, resolved_by: why nobody is needed any more, and who took it up.
    reason, notes, runbook_url: as in `PageRaised`.
    """

    severity: Severity
    title: str
    text: str
    raised_s: float
    number: int = 1
    version: int = 1
    acknowledged_by: str = ""
    acknowledged_s: float | None = None
    resolved: str = ""
    resolved_by: str = ""
    resolved_s: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    runbook_url: str = ""
    routes: tuple[RouteStatus, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.resolved_s is None

    @property
    def is_answered(self) -> bool:
        """Nobody need be called any more."""
        return not self.is_open or bool(self.acknowledged_by)

    @property
    def is_delivered(self) -> bool:
        """The present raising was delivered, on any route."""
        return any(status.delivered == self.number for status in self.routes)

    def on(self, route: str) -> RouteStatus:
        """How that route stands; one that was never used has delivered nothing."""
        return next((status for status in self.routes if status.route == route), RouteStatus(route))
