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
class PageHold:
    """Why a page waits on these routes, since when, and until when.

    Attributes:
        windows: the policy's windows that mute it, by name. until_s: when they let it go (supervisor time); None: no end in
            sight. timezone: whose clocks tell it.
        incidents: those that are open and keep it back, as the policy asks.
    """

    routes: tuple[str, ...]
    since_s: float
    windows: tuple[str, ...] = ()
    until_s: float | None = None
    timezone: str = "UTC"
    incidents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """Attributes:
    number: how often it was raised, because it had been resolved, or what was acknowledged was something else.
    version: of its words, counted over all raisings.
    resolved, resolved_by: why nobody is needed any more, and who took it up.
    reason, notes, runbook_url: as in `PageRaised`.
    hold: what keeps it back now. freed_s: when a route was last let go, and what had held it.
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
    hold: PageHold | None = None
    freed_s: float | None = None
    freed_from: PageHold | None = None

    @property
    def due_s(self) -> float:
        """Since when somebody could have been called."""
        return self.raised_s if self.freed_s is None else max(self.raised_s, self.freed_s)

    def is_held(self, route: str) -> bool:
        return self.hold is not None and route in self.hold.routes

    @property
    def holds_back(self) -> PageHold | None:
        """What keeps it back, as long as somebody is to be called."""
        return None if self.is_answered else self.hold

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
