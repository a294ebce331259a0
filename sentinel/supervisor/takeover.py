"""Waiting for the lease of a supervisor on another machine to run out.

A job that a scheduler moves to another node finds the lease of a supervisor that died with the first. To be refused then would
lose the run: the job leaves the queue, and nobody starts it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sentinel.errors import AlreadySupervised, UsageError
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


class Takeover:
    """The patience of one start. `wait_s`: in all."""

    def __init__(self, run_dir: Path, wait_s: float, stops: StopSignals, systemd: Notifier) -> None:
        self._run_dir = run_dir
        self._wait_s = wait_s
        self._waited_s = 0.0
        self._stops = stops
        self._systemd = systemd

    def waits_for(self, error: AlreadySupervised) -> bool:
        """True when it is time to try again. False at once where waiting cannot help, after the whole wait, and when a stop is
        wanted."""
        left_s = self._wait_s - self._waited_s
        if not error.is_elsewhere or left_s <= 0.0:
            return False
        if self._waited_s == 0.0:
            say(f"{error}\n{self._run_dir}: waiting up to {show_duration(self._wait_s)} for that lease (--takeover-wait)")
        self._systemd.waiting("waiting: another machine's lease on this run has not run out")
        look_s = min(LOOK_EVERY_S, left_s)
        self._waited_s += look_s
        return not self._stops.event.wait(look_s)

    @property
    def is_broken_off(self) -> bool:
        """A stop ended the waiting; nothing was started, and whoever holds the run was left alone."""
        return self._waited_s > 0.0 and bool(self._stops.names)
