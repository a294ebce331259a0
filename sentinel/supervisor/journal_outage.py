"""A journal that cannot be written for a while: what the supervisor does meanwhile, and how it comes back.

A full disk at night must not leave a run unwatched until the morning. Nothing may be done that was not written down, so the
supervisor lets the run go, waits until the journal takes facts again, and takes the run over as any successor would. A run
directory that cannot be reached (a ticket that ran out, a mount that went away) is waited for in the same way, and nothing is
made in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sentinel.errors import Fenced, JournalBlocked, JournalError, RetryLater, SentinelError, WatchLost
from sentinel.journal.lost_history import refuse_no_journal, refuse_other_journal
from sentinel.journal.reach import find_out_of_reach, raised_within, refuse_out_of_reach
from sentinel.journal.store import Journal
from sentinel.model.amounts import time_words
from sentinel.supervisor.loop import NewPolicy, WasAway
from sentinel.supervisor.lost_journal import JournalPages
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.systemd import Notifier

RETRY_S = 5.0
PAGE_AFTER_S = 60.0  # and a route that did not take the page is tried again as rarely
LAST_ACT_S = 60.0
ANSWER_LOOK_S, ANSWER_MAX_S = 0.25, 60.0  # an answer is sent for 20 s at most, and then the routes are left


class JournalOutage:
    """Whether supervision had begun, and the waiting while it is interrupted."""

    def __init__(
        self, run_dir: Path, stops: StopSignals, systemd: Notifier | None = None, pages: JournalPages | None = None
    ) -> None:
        self._run_dir = run_dir
        self.stops = stops
        self.systemd = systemd or Notifier()
        self.pages = pages
        self.has_begun = False
        self._is_on = False
        self._let_s = 0.0
        self._waited_s, self._page_at_s = 0.0, PAGE_AFTER_S
        self._has_gone = False
        self._journal: Journal | None = None

    def begin(self, wall_s: float = 0.0, journal: Journal | None = None) -> None:
        """The run is ours: from here on trouble is waited out, and said to be over when it was. A page about the journal is
        taken back. `journal`: what is written from now on."""
        self._journal = journal
        if self.pages is not None:
            self.pages.withdraw(wall_s, say)
        if self._is_on:
            say(f"{self._run_dir}: the journal can be written again; supervision goes on")
        self.has_begun, self._is_on, self._let_s, self._has_gone = True, False, 0.0, False
        self._waited_s, self._page_at_s = 0.0, PAGE_AFTER_S

    def refuse_another_run(self) -> None:
        """Look before the run is taken, again or for the first time. Raises OutOfReach while the directory is away that was here
        before, and LostHistory where a run lies there without a journal, or with another one than was written."""
        if self.has_begun:
            refuse_out_of_reach(self._run_dir)
        refuse_no_journal(self._run_dir)
        if self._journal is not None and self._journal.written is not None:
            refuse_other_journal(self._run_dir, self._journal.written)

    def judge(self, error: JournalError | OSError, wall_s: float = 0.0) -> None:
        """What came while the run directory went away is waited out, whatever it looks like. Raises anything else: an OSError as
        it is, and a journal's as `no_journal` says."""
        away: JournalBlocked | None = None
        if self.has_begun:
            away = raised_within(self._run_dir, error) if isinstance(error, OSError) else find_out_of_reach(self._run_dir)
        if away is not None:
            self.wait_out(away, wall_s)
        elif isinstance(error, JournalError):
            raise self.no_journal(error, wall_s) from error
        else:
            raise error

    def wait_out(self, error: SentinelError, wall_s: float = 0.0) -> None:
        """Returns when it is time to try again. Raises `error` when nothing was started yet, WatchLost when a stop is wanted.
        When it has lasted, a person is called: what trains there may have died since, and nothing follows."""
        if not self.has_begun:
            raise error
        if self.stops.names:
            raise self.lost(error) from error
        if not self._is_on:
            say(f"{error}\n{self._run_dir}: training is left as it is, and sentinel tries again every {time_words(RETRY_S)}")
        self._is_on = True
        self._waited_s += RETRY_S
        if self._waited_s >= self._page_at_s and self.pages is not None:
            self._page_at_s = self._waited_s + PAGE_AFTER_S
            self.pages.page_outage(error, wall_s, say)
        self.systemd.waiting(f"waiting: {error}")  # else its watchdog would end what waits for the disk
        if self.stops.event.wait(RETRY_S):
            raise self.lost(error) from error

    def lost(self, error: SentinelError) -> SentinelError:
        """The error that ends supervision: as it came when nothing was started yet, with what it means when something was."""
        if not self.has_begun:
            return error
        return WatchLost(
            f"{error}\n{self._run_dir}: sentinel leaves, and what trains there trains on unwatched; "
            "when this is mended, the same `sentinel run` adopts it and `sentinel stop` stops it"
        )

    def no_journal(self, error: JournalError, wall_s: float) -> SentinelError:
        """The error of a journal that will not come back by waiting. It is paged: nobody supervises the run from here on."""
        if self.pages is not None:
            self.pages.page(error, wall_s, say)
        return self.lost(error)

    def fenced(self, error: SentinelError) -> SentinelError:
        """The error of a run that somebody else holds: a wrong command at first, another's success during an outage."""
        return Fenced(f"{error.message}; this one leaves it alone") if self.has_begun else error

    def let_answer(self, error: SentinelError, is_being_answered: bool) -> None:
        """Somebody holds the run. Who only answers a page of it is waited for: returns when it is time to try again. Raises as
        `fenced` says for a supervisor, after ANSWER_MAX_S, and when a stop is wanted."""
        self._let_s += ANSWER_LOOK_S
        gone, self._has_gone = self._has_gone, not is_being_answered
        if self._has_gone and not gone:
            return  # who answered may have left between the two looks: the run is tried once more
        if self._has_gone or self._let_s > ANSWER_MAX_S or self.stops.event.wait(ANSWER_LOOK_S):
            raise self.fenced(error) from None
        self.systemd.waiting("waiting: somebody answers a page of this run")


def say(words: str) -> None:
    """To whoever reads standard error."""
    with suppress(OSError, ValueError):  # it may lead to the very disk that is full
        print(words, file=sys.stderr, flush=True)


@contextmanager
def last_act(close: Callable[[float], bool]) -> Iterator[None]:
    """When the journal fails or supervision begins anew, the act under way is seen to its end by `close`, so that a successor's
    acts never meet it."""
    try:
        yield
    except (JournalBlocked, RetryLater, WasAway, NewPolicy) as error:  # an overdue lease is a RetryLater
        if not close(LAST_ACT_S):
            raise JournalError(f"{error}; and an act of sentinel is still under way after {time_words(LAST_ACT_S)}") from error
        raise
    except Fenced:
        close(0.0)  # what was not begun is forgotten; what is under way finds that it may do nothing more
        raise
