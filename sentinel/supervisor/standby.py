"""`sentinel run --standby`: waits on another machine until the run has lost its supervisor, and goes on with it there.

It counts how long the lease has not changed (`journal/lease_watch.py`), and compares no clocks. The one before has fenced itself
by then, if it lives at all: it acts no more once it could not renew its lease in time, or sees a higher epoch. Of several
standbys the journal takes one, and the others wait on.

A standby begins no run and ends none: where nobody has ever supervised the run it waits for the first who does, and where the run
has ended it leaves. Where the lease of a run that somebody has begun stays away, it can never take over, and calls a person.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME, LEASE_NAME
from sentinel.clock import SystemClock
from sentinel.errors import Fenced, JournalBlocked, PolicyError, RetryLater, UsageError
from sentinel.journal.identity import is_alive, is_of_this_boot
from sentinel.journal.lease import LeaseRecord
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.run_file import find_run_file
from sentinel.journal.standbys import WRITE_EVERY_S, StandbyFile
from sentinel.launcher.attempt_view import read_keeper
from sentinel.launcher.exit_report import read_report
from sentinel.model.amounts import time_words
from sentinel.model.events import StopWanted
from sentinel.model.state import RunState
from sentinel.run_files.agent_files import find_report
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.cluster_job import read_job
from sentinel.supervisor.journal_outage import say
from sentinel.supervisor.own_pages import Stage
from sentinel.supervisor.ruled import check_start, rule_run
from sentinel.supervisor.run_request import RunRequest
from sentinel.supervisor.standby_pages import page_unread_lease
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.systemd import Notifier

LOOKS = 30  # in the length of a lease: every two seconds of the usual one
RETRY_S = 5.0  # what keeps it from taking the run may pass
UNREAD_PAGE_S = 300.0  # at least, and twice what lies between two renewals: whoever lives writes its lease anew by then
LEFT, AGAIN = 130, 75  # as `sentinel run` leaves for a stop, and where its machine is taken away


PageUnread = Callable[[Stage, str], None]
"""Calls a person about a lease that cannot be read, or says that it can be again. Waits for nothing."""


class Standby:
    """One process that stands by. `watch`: its count of the lease."""

    def __init__(
        self, run_dir: Path, stops: StopSignals, watch: LeaseWatch, systemd: Notifier, file: StandbyFile, page_unread: PageUnread
    ) -> None:
        self._run_dir, self._stops, self._watch, self._systemd, self._file = run_dir, stops, watch, systemd, file
        self._page_unread = page_unread
        self._unread_s, self._is_unread_paged = 0.0, False
        self._unread_page_s = UNREAD_PAGE_S
        self._reach = RanksInReach(run_dir)
        self._stands = self._due = ""  # what was last told of how it stands, and of why it takes the run
        self._unwritten_s = WRITE_EVERY_S
        self.lacks = ""

    def wait(self) -> int | None:
        """Until the run may be taken: None. The exit code where a stop was asked for before. Its file is gone then."""
        self._unwritten_s = WRITE_EVERY_S
        with self._file:
            code = self._wait()
        self._unwritten_s = WRITE_EVERY_S
        return code

    def _wait(self) -> int | None:
        while True:
            for event in self._stops.events:
                if isinstance(event, StopWanted):
                    return AGAIN if event.resumes else LEFT
            self._watch.look()
            self._tell()
            self._call_about_unread()
            if why := self._why_due():
                if why != self._due:
                    self._due = why
                    say(f"{self._run_dir}: {why}: this standby takes the run over")
                return None
            self.rest(self._look_every_s)

    def rest(self, seconds: float) -> None:
        """Waits, and is seen to wait; shorter where a stop is asked for."""
        self._show_file()
        self._unwritten_s += seconds
        self._stops.event.wait(seconds)

    @property
    def _look_every_s(self) -> float:
        record = self._watch.record
        return 2.0 if record is None else record.lasts_s / LOOKS

    def _why_due(self) -> str:
        """Empty where it is not."""
        record, own = self._watch.record, read_job(os.environ)
        if record is None:
            return ""
        if record.released:  # by itself, to begin anew, or for good: what begins anew is back in a moment
            return f"{_who(record)} has let it go" if self._watch.silent_s >= record.renew_every_s else ""
        if is_of_this_boot(record.holder) and is_alive(record.holder) is False:
            return f"{_who(record)} has died"
        if own is not None and record.job is not None and own.succeeds(record.job):
            return f"{_who(record)} belonged to an earlier start of this job"
        if self._watch.has_run_out:
            return f"the lease of {_who(record)} has not changed for {time_words(record.lasts_s)}"
        return ""

    def _tell(self) -> None:
        """Whoever looks sees that it waits; a change is said as well."""
        self._show_file()
        record = self._watch.record
        alone = f"stands by: {self._unread() or 'nobody has begun this run yet'}"
        stands = alone if record is None else f"stands by for {_who(record)}"
        self._systemd.waiting(f"{stands}; its lease has not changed for {time_words(self._watch.silent_s)}" if record else stands)
        if (words := f"{stands}{f'; {self.lacks}' if self.lacks else ''}") != self._stands:
            self._stands = words
            say(f"{self._run_dir}: {words}")

    def _call_about_unread(self) -> None:
        """Once where the lease stays away, and once more where it is back. Asked after each rest."""
        unread = self._unread()
        if not unread:
            if self._is_unread_paged:
                self._page_unread("resolve", f"{self._run_dir / LEASE_NAME} can be read again; the standby watches it.")
            self._unread_s, self._is_unread_paged = 0.0, False
            if (record := self._watch.record) is not None:
                self._unread_page_s = max(UNREAD_PAGE_S, 2 * record.renew_every_s)
            return
        if self._unread_s >= self._unread_page_s and not self._is_unread_paged:
            self._is_unread_paged = True
            self._page_unread("trigger", f"{unread} (it has been so for {time_words(self._unread_s)}).")
        self._unread_s += self._look_every_s

    def _show_file(self) -> None:
        if self._unwritten_s >= WRITE_EVERY_S:
            self._unwritten_s = 0.0
            self.lacks = self._reach.lacks(self._watch.record)
            with suppress(OSError):
                self._file.write(self.lacks or self._unread())

    def _unread(self) -> str:
        """What keeps it from ever taking over a run that somebody has begun; empty where nothing does."""
        path = self._run_dir / LEASE_NAME
        if self._watch.record is not None or not (self._run_dir / JOURNAL_NAME).exists():
            return ""
        return (
            f"{path} is not there or cannot be read, so nobody knows whether a supervisor lives; one that does writes it anew by "
            f"itself. If none does, start it: sentinel run --run-dir {self._run_dir}"
        )


class RanksInReach:
    """What a standby on this machine could not do with the ranks that live now. `launcher`: of the run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._turns: dict[str, str] = {}  # by node, what its agent wrote when it was last looked at

    def lacks(self, record: LeaseRecord | None) -> str:
        """Empty where it reaches them: through their scheduler, on its own machine, or by an agent that writes."""
        with suppress(OSError, ValueError, UsageError):
            run = find_run_file(self._run_dir)
            files = AttemptFiles.of(self._run_dir, record.attempt if record is not None else 0)
            if run is None or run.launcher != "local" or read_report(files) is not None:
                return ""
            keeper = read_keeper(files)
            if keeper is None or keeper.is_from_this_boot or self._has_agent(keeper.host):
                return ""
            return (
                f"the ranks of attempt {files.attempt} live on {keeper.host}, which the launcher 'local' does not reach from "
                f"{socket.gethostname()}, and no agent writes there: it could watch them, ask them to save and stop, and page; "
                "it could end none that does not answer, and would start nothing beside them"
            )
        return ""

    def _has_agent(self, host: str) -> bool:
        """Whether its report has changed since it was last looked at. The first look gives it the benefit of the doubt."""
        report = find_report(self._run_dir, host)
        if report is None or report.has_left:
            return False
        turn = f"{report.life} {report.turn}"
        before, self._turns[host] = self._turns.get(host), turn
        return before != turn


def stand_by(request: RunRequest, stops: StopSignals, take: Callable[[LeaseWatch, str], int]) -> int:
    """Wait, take the run over, and wait again where somebody else was faster; the exit code. `take`: supervises the run to its
    end. It gets what the standby could not do.

    Raises:
        UsageError, PolicyError: it could never take this run over. That is said now, and not when it is needed.
    """
    run_dir = request.run_dir.absolute()
    if find_run_file(run_dir) is not None:
        check_start(request, rule_run(request, run_dir, SystemClock().wall_s()))
    watch, systemd = LeaseWatch(run_dir), Notifier.of_environment()
    systemd.ready()

    def page_unread(stage: Stage, text: str) -> None:
        page_unread_lease(request, run_dir, stage, text)

    standby, trouble = Standby(run_dir, stops, watch, systemd, StandbyFile(run_dir), page_unread), ""
    while True:
        code = standby.wait()
        if code is not None:
            return code
        try:
            return take(watch, standby.lacks)
        except Fenced as fenced:
            say(f"{run_dir}: {fenced}; it stands by again")
        except (UsageError, PolicyError, RetryLater, JournalBlocked) as error:
            if str(error) != trouble:
                trouble = str(error)
                say(f"{error}\n{run_dir}: this standby tries again every {time_words(RETRY_S)}")
            standby.rest(RETRY_S)


def is_over(state: RunState) -> bool:
    """Whether a standby leaves the run as it is. One that was suspended, so that the next start goes on, is what it waits for,
    unless a person would not wait for the proof of a stop."""
    return bool(state.ended) and (state.ended != "suspended" or state.unseen is not None)


def _who(record: LeaseRecord) -> str:
    return f"supervisor epoch {record.epoch} (pid {record.holder.pid} on {record.holder.host})"
