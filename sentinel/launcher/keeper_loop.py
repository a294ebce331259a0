"""The keeper's loop over one attempt: notice what ended, decide whether the rest must end too, end it, tell how.

When one rank is lost the others wait for it in a collective, and torchrun waits 30 s for them (measured, torch 2.13): so the rest
gets a short grace to leave its records, then SIGKILL. The same goes for what a command leaves behind when it ends; but the
follower of a trainer under a profile is waited for, since it has the trainer's last rows still to write. The loop wakes at
once for a signal, a child's end or a rank's end (pidfd), and looks for new files a few times a second.

SIGTERM from whomever (a machine that shuts down, a container that is stopped) is handed on to the ranks, which save and leave.
Only what still lives after TERM_GRACE_S, or at a second SIGTERM, is killed. KILL_NOW comes from the launcher.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from sentinel.launcher.attempt_view import pick_ranks
from sentinel.launcher.exit_report import ORDERLY_EXITS, Evidence, build_report, describe_exit, read_table
from sentinel.launcher.keeper_start import Started, complain
from sentinel.launcher.log_cap import LogCap
from sentinel.launcher.process_tree import Process, find_living, is_marked, read_process, send_signal
from sentinel.launcher.process_waits import describe_stuck, read_starved_s
from sentinel.launcher.rank_watch import RankWatch
from sentinel.launcher.torchrun_table import FailureTable
from sentinel.launcher.waiting_clients import SoftEnd
from sentinel.model.amounts import time_words
from sentinel.model.attempts import EXIT_FINISHED, ExitReport
from sentinel.run_files.attempt_files import FOLLOWER_VARIABLE, AttemptFiles

GRACE_S = 2.0  # survivors of the bundled trainer notice a lost peer and leave within about 1 s; twice that for their records
LAUNCHER_GRACE_S = 0.5  # for torchrun to print its failure table behind that: 0.15 to 0.4 s after its last worker (two cores)
STARVED_MAX_S = 10.0  # how much of the time in which torchrun had no processor is no part of that: it may starve for ever
LOOK_EVERY_S = 0.2  # for new heartbeat and exit files; deaths wake the loop at once
ENDING_LOOK_EVERY_S = 0.05
TERM_GRACE_S = 600.0  # as long as a checkpoint may take (hang.phases); who cannot wait sends SIGKILL next, or a second SIGTERM
COMMAND_GRACE_S = 30.0  # for the command when all its ranks have left in order: torchrun takes less than a second
FOLLOWER_GRACE_S = 15.0  # for a trainer's last rows, which say what it died of: 0.2 s; while it starts on a busy machine 10 s
FOLLOWER_STOP_S = 2.0  # the same where somebody waits for the end. Less than local.KEEPER_STOP_S
KILL_NOW = signal.SIGURG  # no scheduler sends it, and a keeper of an older version ignores it: it obeys the SIGTERM behind it
STUBBORN_AFTER_S = 10.0  # SIGKILL has not helped: uninterruptible sleep; keep trying, but slowly
STUBBORN_LOOK_EVERY_S = 1.0
STUBBORN_SAY_EVERY_S = 600.0
FOLLOWER = {FOLLOWER_VARIABLE: "1"}
MAX_DEPTH = 64  # of the process tree between a rank and its keeper


class Keeper:
    """One attempt's loop: wait for something to happen, reap, decide whether to end it, end it, report."""

    def __init__(self, files: AttemptFiles, command: Started, grace_s: float, wake: int, stop_signals: list[int]) -> None:
        self._files = files
        self._command = command
        self._ended: dict[int, int] = {}  # of the command's own processes: pid → exit value, in their order
        self._ended_before: dict[int, int] = {}  # those that had ended when the killing began
        self._grace_s = grace_s
        self._wake = wake
        self._poll = select.poll()
        self._poll.register(wake, select.POLLIN)
        watch, leave = lambda handle: self._poll.register(handle, select.POLLIN), self._poll.unregister
        self.ranks = RankWatch(files, self._belongs, watch, leave)
        self._command_status: int | None = None
        self._has_children = True
        self._cause: str | None = None
        self._is_lost = False  # the cause is a rank's loss
        self._kill_at = float("inf")
        self._killing_since: float | None = None
        self._starved_before_s = 0.0  # the command, before that
        self._failed: tuple[int, ...] = ()  # frozen when the killing begins: what dies of it has not failed
        self._killed: set[tuple[int, float]] = set()
        self._say_at = float("inf")
        self._followers: set[int] = set()
        self._stop_signals = stop_signals
        self._keeper_signal: int | None = None  # the signal that ended it, where that is the cause
        self._has_signalled_ranks = False
        self._log_cap, self._soft_end = LogCap(files.logs), SoftEnd()

    def run(self) -> ExitReport:
        """Until no process of the attempt lives. Unbounded on purpose: that is what a keeper is for."""
        complaint = ""
        while True:
            try:
                if self._is_over():
                    return self._report()
            except OSError as error:  # out of files or memory: what was not seen now is seen the next time
                if str(error) != complaint:
                    complaint = str(error)
                    complain(f"the keeper of {self._files.folder} goes on after: {complaint}")
                time.sleep(ENDING_LOOK_EVERY_S)

    def _is_over(self) -> bool:
        """One turn of the loop; True when nothing of the attempt lives any more."""
        self._wait()
        self._reap()
        self.ranks.poll()
        now = time.monotonic()
        self._log_cap.keep(now)
        self._decide(now)
        living = self._kill(now) if self._kill_at <= now else None
        if self._has_children or (find_living(marks=self._files.environment) if living is None else living):  # one walk, not two
            return False
        self.ranks.poll()
        return True

    def _wait(self) -> None:
        timeout_s = LOOK_EVERY_S if self._cause is None else ENDING_LOOK_EVERY_S
        if self._killing_since is not None and time.monotonic() - self._killing_since > STUBBORN_AFTER_S:
            timeout_s = STUBBORN_LOOK_EVERY_S
        ready = [handle for handle, _ in self._poll.poll(timeout_s * 1000)]
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        gone = [handle for handle in ready if self.ranks.is_handle(handle)]
        if gone:
            self.ranks.poll()  # a rank's record is older than its death
        for handle in filter(self.ranks.is_handle, gone):  # a heartbeat that was read just now may name another process
            self._poll.unregister(handle)
            self.ranks.note_gone(handle)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # no child, and as subreaper that means: no descendant at all
                self._has_children = False
                return
            self._has_children = True
            if pid == 0:
                return
            value = os.waitstatus_to_exitcode(status)
            if any(pid == process.pid for process in self._command.processes):
                self._ended[pid] = value
                self._command_status = self._command.status_of(self._ended)
            self.ranks.note_reaped(pid, value)

    def _decide(self, now: float) -> None:
        """Set the cause and the moment of the kill. The first cause stays; a stop request only brings the kill forward, and what
        is lost while the ranks leave in order ends the wait for the others."""
        lost = self.ranks.lost()
        if self._is_lost and lost is None and self._killing_since is None:
            self._cause, self._is_lost = None, False  # torchrun has ended with 0: nothing was lost after all
        if self._cause is None:
            if lost is not None:
                self._cause, self._is_lost = lost, True
            elif self._command_status is not None and not (self._stop_signals and self._left_in_order()):
                self._cause = f"the command {describe_exit(self._command_status)}"
            if self._cause is not None:
                self._kill_at = now + self._grace_s
                self._tell_others()
            elif self._stop_signals:
                self._cause = "stopped by request"
                self._keeper_signal = signal.SIGTERM
                self._kill_at = now + TERM_GRACE_S
        elif self._keeper_signal is not None and (lost is not None or self._command_status is not None):
            self._kill_at = min(self._kill_at, now + self._grace_s)
        elif self._keeper_signal is not None and self.ranks.are_all_gone():
            self._kill_at = min(self._kill_at, now + COMMAND_GRACE_S)
        if self._must_kill():
            self._kill_at = min(self._kill_at, now)
        elif self._stop_signals and not self._has_signalled_ranks:
            self._tell_ranks()
        if lost is not None and self.ranks.are_all_gone() and not self.ranks.is_word_due():
            words_s = LAUNCHER_GRACE_S if self._command_status is not None else float("inf")  # while it lives, its table may come
            self._kill_at = min(self._kill_at, now + (0.0 if self.ranks.are_all_ends_known() else words_s))

    def _left_in_order(self) -> bool:
        """The request to stop and the end that it asked for may be seen in one look, on a busy machine."""
        return self._command_status in ORDERLY_EXITS or (bool(self.ranks.ranks) and self.ranks.lost() is None)

    def _must_kill(self) -> bool:
        return KILL_NOW in self._stop_signals or len(self._stop_signals) > 1

    def _tell_ranks(self) -> None:
        """SIGTERM, once, to whatever is a rank by now. One that is stopped gets it when it goes on."""
        self._has_signalled_ranks = True
        below = find_living(roots=(os.getpid(),), marks=self._files.environment)
        ranks = set(pick_ranks(self._files, {process.pid for process in below}, self._command.pid))
        for process in below:
            if process.pid in ranks:
                send_signal(process, signal.SIGTERM)

    def _tell_others(self) -> None:
        """As torchrun does, where there is none: the ranks that are left get SIGTERM when one has failed."""
        if self._command.is_agentless:
            self._tell_ranks()

    def _kill(self, now: float) -> tuple[Process, ...]:
        """What lived of the attempt a moment ago."""
        if self._killing_since is None:
            self._killing_since, self._say_at = now, now + STUBBORN_AFTER_S
            self._starved_before_s = self._starved_s()
            self._failed = self._failures()
            self._ended_before = dict(self._ended)
        is_table_due = self.ranks.needs_table() and not self._must_kill() and now < self._killing_since + self._table_grace_s()
        living = find_living(roots=(os.getpid(),), marks=self._files.environment)
        self._name_stubborn(living, now)
        grace_s = FOLLOWER_STOP_S if self._must_kill() else FOLLOWER_GRACE_S
        if is_follower_due := now < self._killing_since + grace_s:
            followers = [process for process in living if is_marked(process.pid, FOLLOWER)]
            self._followers |= {pid for process in followers for pid in (process.pid, process.parent)}
        for process in living:
            if self._soft_end.spares(process, now) or (process.pid == self._command.pid and is_table_due):
                continue  # srun ends its tasks elsewhere; torchrun, its workers dead, says at last what befell the first of them
            if process.pid in self._followers and is_follower_due:
                continue  # it ends by itself after its trainer, and so does the process that starts it again when it dies
            if send_signal(process, signal.SIGKILL):
                self._killed.add((process.pid, process.create_time))
        return living

    def _table_grace_s(self) -> float:
        """A torchrun that waits for a processor tells how its ranks ended as much later."""
        starved_s = max(0.0, self._starved_s() - self._starved_before_s)
        return LAUNCHER_GRACE_S + min(starved_s, STARVED_MAX_S)

    def _starved_s(self) -> float:
        return 0.0 if self._command.pid is None else read_starved_s(self._command.pid)

    def _name_stubborn(self, living: tuple[Process, ...], now: float) -> None:
        """Who survives SIGKILL is told, once and then rarely. A follower that is waited for was sent none."""
        left = [process for process in living if (process.pid, process.create_time) in self._killed]
        if left and now >= self._say_at and self._killing_since is not None:
            self._say_at = now + STUBBORN_SAY_EVERY_S
            named = ", ".join(map(describe_stuck, left))
            complain(f"{self._files.folder}: processes survive SIGKILL for {time_words(now - self._killing_since)}: {named}")

    def _failures(self) -> tuple[int, ...]:
        """Ranks in the order they failed; a command without ranks is rank 0 itself."""
        if self.ranks.ranks or self._command_status in (*ORDERLY_EXITS, None):
            return self.ranks.failed_order()
        return (0,)

    def _belongs(self, pid: int) -> bool:
        process = read_process(pid)
        for _ in range(MAX_DEPTH):
            if process is None:
                break
            if process.parent == os.getpid():
                return True
            process = read_process(process.parent)
        return is_marked(pid, self._files.environment)

    def _table(self) -> FailureTable:
        if not self._command.is_agentless:
            return read_table(self._files)
        return self._command.table_of(self._ended if self._killing_since is None else self._ended_before)

    def _left_behind(self) -> int:
        """How many processes had to be killed although nobody asked for it and the command had ended well."""
        if self._command_status != EXIT_FINISHED or self._stop_signals or self._is_lost:
            return 0
        return sum(pid not in self._followers for pid, _ in self._killed)

    def _report(self) -> ExitReport:
        evidence = Evidence(
            command_status=self._command_status,
            ranks=self.ranks.ranks | set(self.ranks.reaped),
            records=self.ranks.records,
            reaped=self.ranks.reaped,
            vouched=self.ranks.vouched,
            table=self._table(),
            failed_order=self._failures() if self._killing_since is None else self._failed,
            was_killed=bool(self._killed),
            keeper_signal=self._keeper_signal,
            left_behind=self._left_behind(),
        )
        assert self._cause is not None, "an attempt ends for a reason"
        killed = f"; {len(self._killed)} of its processes were killed" if self._killed else ""
        return build_report(evidence, self._cause + killed)
