"""The launcher for this machine: starts one keeper per attempt, asks it to end, and does its work when it is dead.

It holds nothing in memory: every method reads the run directory and /proc first, so a supervisor that was killed asks
again and gets the same answer. It may import `time`: its deadlines are about real processes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.closed_files import closed
from sentinel.client.regular_file import read_regular
from sentinel.errors import GiveUp, NotYet, RetryLater
from sentinel.launcher.attempt_view import KeeperRecord, find_orphans, find_ranks, read_keeper, read_view
from sentinel.launcher.beat_writers import find_beating_on
from sentinel.launcher.elsewhere import (
    QUIET_S,
    find_elsewhere,
    judge_end,
    read_argv,
    read_printed,
    write_ended_here,
)
from sentinel.launcher.exit_report import (
    Evidence,
    build_report,
    read_records,
    read_report,
    read_start_failure,
    read_table,
    write_report,
)
from sentinel.launcher.file_locks import try_lock
from sentinel.launcher.keeper_loop import GRACE_S as KEEPER_GRACE_S
from sentinel.launcher.keeper_loop import KILL_NOW
from sentinel.launcher.keeper_start import claim
from sentinel.launcher.process_tree import (
    Process,
    find_living,
    is_same_process,
    kill_until_none,
    read_process,
    send_signal,
    wait_child,
    wait_gone,
)
from sentinel.launcher.process_waits import describe_stuck, read_name
from sentinel.launcher.rank_names import is_rank_by_another_name
from sentinel.launcher.ready_keeper import ReadyKeeper
from sentinel.launcher.reserve import Reserve
from sentinel.launcher.spare_records import bring_home
from sentinel.launcher.spec_file import write_spec
from sentinel.launcher.waiting_clients import CLIENTS, GRACE_S, OF_SCHEDULERS, client_name, end_clients, why_not_vouched
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Exited, ExitReport, NotStarted, Orphaned, Unseen
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles, rank_files
from sentinel.run_files.cluster_job import has_started_anew

START_WAIT_S = 10.0  # a keeper is up in about 0.1 s; a machine that swaps takes seconds
KEEPER_REACH_S = GRACE_S + QUIET_S + 5.0  # the same where ranks are to be ended on other machines
KEEPER_STOP_S = 3.0  # it kills in well under a second; longer means that it or a process is stuck
KILL_S = 10.0
KEEPER_LAST_S = 5.0  # from the last process of the attempt to its report: milliseconds, and seconds on a starved machine
RETRY_IN_S = 5.0
_POLL_EVERY_S = 0.02
_ERROR_TAIL_CHARS = 500


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Each on or off. `warm`: ranks wait in reserve for the next attempt. `direct`: the ranks of a torchrun command are started
    without torchrun.

    Raises:
        ValueError: one is neither.
    """

    warm: str = "off"
    direct: str = "off"

    def __post_init__(self) -> None:
        for name, value in (("warm", self.warm), ("direct", self.direct)):
            if value not in ("on", "off"):
                raise ValueError(f"--launcher-option {name}={value}: write {name}=on or {name}=off")


class LocalLauncher:
    """`contract.Launcher` for attempts on this machine. `grace_s`: see the keeper; None leaves it its own. `withheld`: variables
    of sentinel's own that nothing it starts inherits. `reserve`: ranks that wait for the next attempt, if there are to be any.
    `ready`: a keeper that waits for it. `direct`: the ranks of a torchrun command are started without torchrun."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        grace_s: float | None = None,
        withheld: frozenset[str] = frozenset(),
        reserve: Reserve | None = None,
        direct: bool = False,
        ready: ReadyKeeper | None = None,
    ) -> None:
        self.reserve, self.ready, self._direct = reserve, ready, direct
        self._run_dir = Path(os.path.realpath(run_dir))
        self._grace_s = grace_s
        self._withheld = withheld

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return read_view(self._files(attempt), with_processes)

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        """As the contract says. A keeper's own trouble (no memory, full disk) is RetryLater; nothing ran then.

        A command that could not be started for a passing reason has used up its number: `Exited`, with the reason.
        """
        files = self._files(spec.attempt)
        bring_home(self._run_dir)
        view = read_view(files)
        if isinstance(view, NotStarted):
            try:
                with _starting(files):
                    view = read_view(files)
                    if isinstance(view, NotStarted):
                        self._refuse_beside_unseen(spec.attempt)
                        write_spec(files, spec)
                        view = self._hand_over(files, spec)
                        view = self._start_keeper(files) if isinstance(view, NotStarted) else view
            except OSError as error:
                raise RetryLater(f"attempt {spec.attempt} cannot be started now: {error}", RETRY_IN_S) from error
        if isinstance(view, Unseen):
            raise RetryLater(view.reason, RETRY_IN_S)
        if isinstance(view, Exited) and read_start_failure(files) == "certain":
            raise GiveUp(view.report.reason)
        return view

    def _hand_over(self, files: AttemptFiles, spec: AttemptSpec) -> AttemptView:
        """To whom waits for it: ranks in reserve first, then a keeper alone. `NotStarted` where nobody took it."""
        view: AttemptView = NotStarted(files.attempt)
        grace_s = KEEPER_GRACE_S if self._grace_s is None else self._grace_s
        if self.reserve is not None:
            self.reserve.take(spec, grace_s, self._direct)
            view = read_view(files)
        if self.ready is not None and isinstance(view, NotStarted):
            self.ready.take(files, grace_s, self._direct)
            view = read_view(files)
        return view

    def _refuse_beside_unseen(self, attempt: int) -> None:
        """Raises RetryLater where the attempt before may live on other machines."""
        view = read_view(self._files(attempt - 1)) if attempt > 1 else NotStarted(0)
        if isinstance(view, Unseen) and view.has_ended_here:
            raise RetryLater(f"attempt {attempt} is not started beside attempt {attempt - 1}: {view.reason}", RETRY_IN_S)

    def _start_keeper(self, files: AttemptFiles) -> AttemptView:
        """Start one and wait for its word (or START_WAIT_S). It is nobody's child afterwards: it detaches itself."""
        command = [sys.executable, "-P", "-m", "sentinel.launcher.keeper", str(files.run_dir), str(files.attempt), "--detach"]
        if self._grace_s is not None:
            command += ["--grace-s", str(self._grace_s)]
        command += ["--direct"] if self._direct else []
        ours = self._withheld | {RUN_DIR_VARIABLE, ATTEMPT_VARIABLE}  # the marks, should we run inside another attempt
        environment = {name: value for name, value in os.environ.items() if name not in ours}
        log = files.logs / "keeper.err"
        with open(log, "ab", opener=closed) as err:
            starter = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
            )
        status = wait_child(starter, START_WAIT_S)
        outcome = "no word from it yet" if status is None else f"it left with {status}"
        view = read_view(files)
        if isinstance(view, NotStarted):
            tail = read_regular(log).decode("utf-8", "replace")[-_ERROR_TAIL_CHARS:].strip() or "empty"
            raise RetryLater(f"the keeper of attempt {files.attempt} did not come up: {outcome}; {log}: {tail}", RETRY_IN_S)
        return view

    def ensure_stopped(self, attempt: int) -> AttemptView:
        """As the contract says. An attempt nobody ever asked for is `NotStarted`; one asked for but not started yet is ended
        so that a keeper on its way finds it ended. Raises RetryLater also when the attempt cannot be seen, or runs elsewhere.
        """
        files = self._files(attempt)
        bring_home(self._run_dir)
        view = read_view(files)
        try:
            if isinstance(view, NotStarted):
                view = self._stop_before_start(files)
            if isinstance(view, Alive):
                view = self._stop_keeper(files)
            if isinstance(view, Orphaned):
                view = self._reap(files, view.reason)
            if isinstance(view, Exited) and read_report(files) is None:
                write_report(files, view.report)  # what ended elsewhere is proven since
        except (OSError, ValueError) as error:
            raise RetryLater(f"attempt {attempt} cannot be stopped now: {error}", RETRY_IN_S) from error
        if isinstance(view, Unseen) and view.has_ended_here:
            raise NotYet(f"attempt {attempt}: {view.reason}", RETRY_IN_S)
        if isinstance(view, Unseen):
            raise RetryLater(view.reason, RETRY_IN_S)
        if isinstance(view, Alive):
            raise RetryLater(f"attempt {attempt}: its keeper (pid {view.keeper_pid}) lives, out of reach from here", RETRY_IN_S)
        return view

    def _stop_before_start(self, files: AttemptFiles) -> AttemptView:
        if not files.spec.exists():
            return NotStarted(files.attempt)
        with _starting(files):
            lock = claim(files)
            if lock is None:  # a keeper was faster
                return read_view(files)
            try:
                write_report(files, ExitReport(None, (), None, "stopped before it was started"))
            finally:
                os.close(lock)
        return read_view(files)

    def _stop_keeper(self, files: AttemptFiles) -> AttemptView:
        """Ask the keeper; then kill its processes for it; then, with none left and still no report, end the keeper."""
        keeper = self._wait_for_keeper(files)
        if keeper is None or not keeper.is_living_here:
            return read_view(files)
        process = read_process(keeper.pid)
        if process is not None and is_same_process(keeper.pid, keeper.create_time):
            for number in (KILL_NOW, signal.SIGTERM):  # a keeper of an older version knows the second alone
                send_signal(process, number)
            send_signal(process, signal.SIGCONT)  # should somebody have stopped it
            if not wait_gone(keeper.pid, keeper.create_time, _patience_s(files, keeper)):
                self._kill_all(files, keeper)
                if not wait_gone(keeper.pid, keeper.create_time, KEEPER_LAST_S):
                    send_signal(process, signal.SIGKILL)
                    wait_gone(keeper.pid, keeper.create_time, KEEPER_LAST_S)
        return read_view(files)

    def _wait_for_keeper(self, files: AttemptFiles) -> KeeperRecord | None:
        """keeper.json of a keeper that holds the lock and is about to write it."""
        deadline = time.monotonic() + START_WAIT_S
        while (keeper := read_keeper(files)) is None and isinstance(read_view(files), Alive) and time.monotonic() < deadline:
            time.sleep(_POLL_EVERY_S)
        return keeper

    def _kill_all(self, files: AttemptFiles, keeper: KeeperRecord) -> None:
        known = find_living(roots=(keeper.pid,)) if keeper.is_living_here else ()

        def find() -> tuple[Process, ...]:
            below = find_living(roots=(keeper.pid,)) if keeper.is_living_here else ()
            found = {process.pid: process for process in (*below, *find_orphans(files)) if process.pid != keeper.pid}
            found |= {process.pid: process for process in known if is_same_process(process.pid, process.create_time)}
            return tuple(found.values())

        left = kill_until_none(find, KILL_S)
        if left:
            named = ", ".join(map(describe_stuck, left))
            raise RetryLater(f"attempt {files.attempt}: processes survive SIGKILL for {time_words(KILL_S)}: {named}", RETRY_IN_S)

    def _reap(self, files: AttemptFiles, reason: str) -> AttemptView:
        """The keeper's work without a keeper: nobody saw the ranks' statuses, so only their own records count."""
        keeper = read_keeper(files)
        assert keeper is not None, "an orphaned attempt had a keeper"
        clients: tuple[Process, ...] = ()
        host, here = keeper.host or socket.gethostname(), dict[int, int]()
        if keeper.is_from_this_boot:
            here = _ranks_by_another_name(files, host)
            known = frozenset(process.pid for process in find_orphans(files))
            clients = end_clients(lambda: find_orphans(files))
            self._kill_all(files, keeper)
            _refuse_while_beating(files, known)
        evidence = Evidence(
            ranks=set(rank_files(files.heartbeats)), records=read_records(files), table=read_table(files), was_killed=True
        )
        if read_report(files) is None:
            why = why_not_vouched(read_argv(files), 0 if clients else None, read_printed(files))
            why = "" if has_started_anew(keeper.job, os.environ) else why
            is_unheard = bool(why) and client_name(read_argv(files)) in OF_SCHEDULERS and not evidence.ranks
            report = build_report(evidence, reason)
            ended = judge_end(files, host, report, why, here=here, is_unheard=is_unheard, job=keeper.job)
            if isinstance(ended, ExitReport):
                write_report(files, ended)
            else:
                write_ended_here(files, ended)
        return read_view(files)

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """As the contract says; 0 when the attempt has no living rank that can be seen. Never raises."""
        files = self._files(attempt)
        view = read_view(files)
        try:
            keeper = read_keeper(files)
            pids = find_ranks(files, view, None if keeper is None else keeper.command_pid)
        except (OSError, ValueError):
            return 0
        processes = [process for process in map(read_process, pids) if process is not None and process.is_living]
        return sum(send_signal(process, signal_number) for process in processes)

    def _files(self, attempt: int) -> AttemptFiles:
        return AttemptFiles(self._run_dir, attempt)


def _ranks_by_another_name(files: AttemptFiles, host: str) -> dict[int, int]:
    """The pids of ranks that live here, and whose heartbeats call this machine otherwise than `host`."""
    living = {process.pid for process in find_orphans(files)}
    named = ((rank, one.host, one.pid) for rank, one in find_elsewhere(files, host).items())
    return {rank: pid for rank, name, pid in named if pid in living and is_rank_by_another_name(rank, name, pid)}


def _refuse_while_beating(files: AttemptFiles, known: frozenset[int]) -> None:
    """Raises NotYet where a rank of this machine goes on that cannot be found. `known`: the attempt's processes before they were
    ended."""
    rank = find_beating_on(files, known)
    if rank is not None:
        raise NotYet(
            f"attempt {files.attempt}: the heartbeat of rank {rank} goes on changing, and no process of this machine is known to "
            f"write it; end that process, whose pid stands in {files.heartbeats}",
            RETRY_IN_S,
        )


def _patience_s(files: AttemptFiles, keeper: KeeperRecord) -> float:
    """How long the keeper may take to end the attempt: a client that ends ranks on other machines needs its time."""
    has_client = any(read_name(process.pid) in CLIENTS for process in find_living(roots=(keeper.pid,)))
    return KEEPER_REACH_S if has_client or find_elsewhere(files, keeper.host) else KEEPER_STOP_S


@contextmanager
def _starting(files: AttemptFiles) -> Iterator[None]:
    """One at a time, whether in threads or processes; a start that was killed lets go by itself. Raises OSError, RetryLater."""
    if not files.run_dir.is_dir():
        raise FileNotFoundError(f"the run directory {files.run_dir} is not there")
    files.make_folders()
    deadline = time.monotonic() + START_WAIT_S
    while (lock := try_lock(files.start_lock)) is None:
        if time.monotonic() >= deadline:
            raise RetryLater(f"attempt {files.attempt}: another process has long been starting it", RETRY_IN_S)
        time.sleep(_POLL_EVERY_S)
    try:
        yield
    finally:
        os.close(lock)
