"""What every turn of a supervisor does beside the engine: the lease, the stop signals, the files that show how it stands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sentinel.errors import Fenced, RetryLater
from sentinel.journal.session import RunSession
from sentinel.paging.desk import Desk
from sentinel.run_files.detector_standings import StandingsFile
from sentinel.supervisor.daemon import Daemon
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.telemetry.wake import Wake


def keep_up(
    session: RunSession, wake: Wake, daemon: Daemon, stops: StopSignals, standings: StandingsFile, desk: Desk
) -> Callable[[float], None]:
    """What the loop calls once a turn with the session's clock. Raises Fenced when another supervisor has taken the run over."""
    engine, handled = daemon.engine, 0

    def keep(now_s: float) -> None:
        nonlocal handled
        if engine.watched:
            wake.follow(engine.watched)
        wake.rearm()
        with suppress(RetryLater):  # the disk said no: tried again next turn, and 60 s may pass before it matters
            session.lease.renew(now_s)
        if session.lease.is_lost():
            raise Fenced(f"another supervisor took this run over (epoch above {session.epoch}); this one leaves it alone")
        while handled < len(stops.events):
            handled += 1
            daemon.want(stops.events[handled - 1])
        standings.keep(now_s, engine)
        session.journal.fold_when_quiet(now_s)
        desk.turned()

    return keep
