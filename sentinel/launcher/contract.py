"""What every launcher promises: to start one attempt, stop it and observe it. Each method is idempotent under its number.

A launcher acts on what it observes, not on what it remembers: it looks for a living keeper of this attempt before it starts
one, so that a supervisor killed between 'started' and 'journaled' may simply ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sentinel.model.attempts import AttemptSpec, AttemptView

Hold = Callable[[], None]
"""Asked right before anything is started, ended or signalled: raises where the run may be another supervisor's by now, which
time and a stopped process bring about between any two lines."""


def unheld() -> None:
    """For whoever acts for no supervisor: a `Hold` that raises nothing."""


class Launcher(Protocol):
    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        """Start the attempt unless it was ever started; return what is seen of it.

        Raises:
            GiveUp: the command cannot be started at all (no such program, not executable), with the reason.
            EngineDown: the scheduler did not start it, or does not say whether it did; it is tried again, however long it takes.
            RetryLater: it could not be started now (out of processes, disk full).
        """
        ...

    def ensure_stopped(self, attempt: int) -> AttemptView:
        """End every process of the attempt by SIGKILL, a dead keeper's orphans included; returns `Exited`.

        A polite stop is a request in overrides.json and is not the launcher's business. Raises RetryLater when
        processes survive the deadline (uninterruptible sleep), naming them; NotYet when everything was done, and nothing proves
        that what cannot be seen has ended: it is asked again, for as long as that lasts.
        """
        ...

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """Send a signal to the ranks (not to the launching command); returns how many were sent to."""
        ...

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        """What can be seen of the attempt now. It never blocks and never raises: what cannot be seen is `Unseen`, and so
        is an attempt of which all that can be seen has ended, and not known to be all of it (`has_ended_here`).

        `with_processes` False: the caller asks only whether it lives. `Alive.pids` may then be empty, and nobody walks through
        every process of the machine for it, twice a second.
        """
        ...
