"""From a supervised run to the desk through which it reaches a person."""

from __future__ import annotations

from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.journal.lease import Lease
from sentinel.model.operator_requests import Acknowledge
from sentinel.paging.desk import Desk, Ways
from sentinel.telemetry.inbox import post


def open_desk(run_dir: Path, engine: Engine, clock: SystemClock, lease: Lease) -> Desk:
    """What reaches a person about this run, on the routes of the engine's policy."""

    def acknowledge(incident: int, by: str) -> None:
        post(run_dir, by, Acknowledge(incident), round(clock.wall_s() * 1e9))

    ways = Ways(lambda: engine.state, acknowledge, is_ours=lambda: not lease.is_lost())
    return Desk(run_dir, engine.policy.spec.paging, ways, clock)
