"""Waiting for the lease of a supervisor on another machine to run out, counted by `journal/lease_watch.py`.

A job that a scheduler moves to another node finds the lease of a supervisor that died with the first. To be refused then would
lose the run: the job leaves the queue, and nobody starts it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sentinel.errors import AlreadySupervised, UsageError
from sentinel.journal.lease import LENGTH_MAX_S, LENGTH_MIN_S, STALE_AFTER_S
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.session import RunSession, take_run
from sentinel.policy.quantities import Malformed, parse_duration, show_duration
from sentinel.run_files.cluster_job import is_on_cluster
from sentinel.supervisor.journal_outage import say
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.systemd import Notifier

ON_CLUSTER_S = 90.0  # a lease is stale 60 s after its last renewal, and a file server may keep a dead machine's lock for longer
LOOK_EVERY_S = 2.0


def parse_takeover_wait(text: str | None, environ: Mapping[str, str]) -> float:
    """`--takeover-wait` in seconds. Raises UsageError for what is no duration."""
    if text is None:
        return ON_CLUSTER_S if is_on_cluster(environ) else 0.0
    try:
        return parse_duration(text)
    except Malformed as error:
        raise UsageError(f"--takeover-wait: {error}; {error.remedy}") from None


def parse_lease_length(text: str | None) -> float:
    """`--lease` in seconds. Raises UsageError."""
    if text is None:
        return STALE_AFTER_S
    try:
        length_s = parse_duration(text)
    except Malformed as error:
        raise UsageError(f"--lease: {error}; {error.remedy}") from None
    if not LENGTH_MIN_S <= length_s <= LENGTH_MAX_S:
        least, most = show_duration(LENGTH_MIN_S), show_duration(LENGTH_MAX_S)
        raise UsageError(f"--lease {text}: a lease lasts {least} to {most}; write one of that length, as in 60s")
    return length_s


class Takeover:
    """The patience of one start. `wait_s`: in all. `lease_s`: how long the own lease will last. `watch`: a count of the lease
    that was begun before; None: it begins here, and an old lease counts as old by the clock of its filesystem."""

    def __init__(
        self,
        run_dir: Path,
        wait_s: float,
        stops: StopSignals,
        systemd: Notifier,
        lease_s: float = STALE_AFTER_S,
        watch: LeaseWatch | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._lease_s = lease_s
        self._watch = LeaseWatch(run_dir, trusts_times=True) if watch is None else watch
        self._wait_s = wait_s
        self._waited_s = 0.0
        self._stops = stops
        self._systemd = systemd

    def take(self) -> RunSession:
        """Raises as `take_run`."""
        return take_run(self._run_dir, self._watch, self._lease_s)

    def waits_for(self, error: AlreadySupervised) -> bool:
        """True when it is time to try again. False at once where waiting cannot help, after the whole wait, and when a stop is
        wanted."""
        left_s = self._wait_s - self._waited_s
        if not error.is_elsewhere or left_s <= 0.0:
            return False
        if self._waited_s == 0.0:
            say(f"{error}\n{self._run_dir}: waiting up to {show_duration(self._wait_s)} for that lease (--takeover-wait)")
        self._systemd.waiting("waiting: another machine's lease on this run has not run out")
        self._watch.look()
        look_s = min(LOOK_EVERY_S, left_s)
        self._waited_s += look_s
        is_left = not self._stops.event.wait(look_s)
        self._watch.look()
        return is_left

    @property
    def is_broken_off(self) -> bool:
        """A stop ended the waiting; nothing was started, and whoever holds the run was left alone."""
        return self._waited_s > 0.0 and bool(self._stops.names)
