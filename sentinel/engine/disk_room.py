"""Room on the disks: a page about it is taken back once there is room again, by measurement."""

from __future__ import annotations

from sentinel.detectors.registry import FINDS
from sentinel.engine.decision import Decision
from sentinel.engine.paging import resolve


def on_tick(decision: Decision) -> None:
    for incident in decision.state.open_pages:
        finds = FINDS.get(incident.kind)
        if finds is None or not finds.is_measured:
            continue
        if why := decision.detectors.over(incident.kind, incident.metric):
            resolve(decision, incident.id, why)
