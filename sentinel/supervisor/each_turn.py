"""What every turn of a supervisor does beside the engine: the lease, the stop signals, the files that show how it stands."""

from __future__ import annotations

import uuid

from sentinel.errors import Fenced, LeaseOverdue, RetryLater
from sentinel.journal.run_file import PolicyReference
from sentinel.journal.session import RunSession
from sentinel.launcher.made_ahead import MadeAhead
from sentinel.model.events import SignalSeen
from sentinel.model.operator_requests import ApplyPolicy
from sentinel.model.readings import RequestReading
from sentinel.model.state import RunState
from sentinel.paging.desk import Desk
from sentinel.run_files.detector_standings import StandingsFile
from sentinel.supervisor.daemon import Daemon
from sentinel.supervisor.loop import EachTurn
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.systemd import Notifier, in_words
from sentinel.telemetry.wake import Wake


def is_settled(state: RunState) -> bool:
    """It trains, and nothing is being repaired: the time to make ready for the next attempt."""
    attempt = state.attempt
    trains = attempt is not None and attempt.first_step is not None and not attempt.is_over and not attempt.stopping
    return trains and state.plan is None


def keep_up(
    session: RunSession,
    wake: Wake,
    daemon: Daemon,
    stops: StopSignals,
    standings: StandingsFile,
    desk: Desk,
    systemd: Notifier,
    ahead: MadeAhead,
    policy: PolicyReference,
) -> EachTurn:
    """What the loop calls once a turn with the session's clock. Raises Fenced when another supervisor has taken the run over, and
    LeaseOverdue when one may have.

    Only what people ask by a signal is passed on in every turn; the rest has time until the next whole look, half a second at
    most. The word to systemd is for the turns before. `policy`: the run's, whose file SIGHUP has read anew.
    """
    engine, handled = daemon.engine, 0

    def look(now_s: float) -> None:
        if engine.watched:
            wake.follow(engine.watched)
        wake.rearm()
        try:
            session.lease.renew(now_s)
        except LeaseOverdue:
            raise
        except RetryLater:
            pass  # the disk said no: tried again next look, until it is overdue
        if session.lease.is_lost():
            raise Fenced(f"another supervisor took this run over (epoch above {session.epoch}); this one leaves it alone")
        standings.keep(now_s, engine)
        session.journal.fold_when_quiet(now_s)
        desk.turned()
        ahead.look(now_s, engine.watched, is_settled(engine.state))

    each_look = systemd.after_turns(look, lambda: in_words(engine))

    def keep(now_s: float, only_steps: bool) -> None:
        nonlocal handled
        while handled < len(stops.events):
            handled += 1
            daemon.want(stops.events[handled - 1])
        if reload := stops.take_reload():
            daemon.want(reload if isinstance(reload, SignalSeen) else _asked_by_signal(policy.source or policy.path))
        if not only_steps:
            each_look(now_s)

    return keep


def _asked_by_signal(policy_path: str) -> RequestReading:
    return RequestReading(uuid.uuid4().hex[:12], "SIGHUP", ApplyPolicy(policy_path))
