"""The keeper: a small program that owns the processes of one attempt and records how they ended, even if sentinel is dead.

    python -m sentinel.launcher.keeper RUN_DIR ATTEMPT [--detach] [--grace-s 2.0] [--direct]

It starts the command of attempts/N/spec.json (with --direct the ranks of a torchrun) in a session of its own and becomes the
parent of whatever loses its parent below it (child subreaper). It ends only when no process of the attempt lives, and then has
written attempts/N/exit.json.
SIGTERM to it is handed on to the ranks, which save and leave; a second one, or the launcher's own signal, means: kill everything
of the attempt now (keeper_loop.py). It never restarts anything: a second keeper for the same attempt,
at the same time or later, exits without doing anything (keeper.lock; keeper.json is written before the command is started).

Standard library only and everything imported at the start, because it must come up fast and outlive an upgrade of the files
it came from. It may import `time`: its waits are about a real disk.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType

from sentinel.client.atomic_file import never_make
from sentinel.client.spare_place import SparePlace
from sentinel.launcher.attempt_view import read_keeper
from sentinel.launcher.direct_start import start_ranks
from sentinel.launcher.elsewhere import judge_end, read_argv, read_printed, write_ended_here
from sentinel.launcher.exit_report import StartFailure, encode_report, write_report
from sentinel.launcher.keeper_loop import GRACE_S, KILL_NOW, Keeper
from sentinel.launcher.keeper_start import NotStartable, Started, claim, complain, start_command, write_keeper
from sentinel.launcher.spare_records import bring_home
from sentinel.launcher.waiting_clients import OF_SCHEDULERS, client_name, why_not_vouched
from sentinel.model.attempts import ExitReport
from sentinel.run_files.attempt_files import AttemptFiles, rank_files
from sentinel.run_files.cluster_job import read_job
from sentinel.signals import SAME_S

Start = Callable[[AttemptFiles], Started | NotStartable]
REPORT_TRIES, REPORT_RETRY_S = 120, 0.5  # a full disk gets a minute

STARTED, HELD, NOT_STARTED, TRY_AGAIN = 0, 10, 11, 75  # what the starting process exits with; 75 is EX_TEMPFAIL
_PR_SET_CHILD_SUBREAPER = 36


def _write_surely(files: AttemptFiles, spare: SparePlace, report: ExitReport, start_failure: StartFailure | None = None) -> bool:
    """To its place, and while that cannot be written to the second one, at once: whoever asks gets the answer there. False where
    it is in neither."""
    is_kept = False
    for left in range(REPORT_TRIES, 0, -1):
        try:
            write_report(files, report, start_failure)
            bring_home(files.run_dir)
            return True
        except OSError as error:
            complain(f"{files.exit}: cannot be written ({error}); {left - 1} tries left")
            is_kept = is_kept or _keep_aside(files, spare, report, start_failure)
            time.sleep(REPORT_RETRY_S)
    return is_kept


def _keep_aside(files: AttemptFiles, spare: SparePlace, report: ExitReport, start_failure: StartFailure | None) -> bool:
    try:
        complain(f"the report is in {spare.write(files.exit.name, encode_report(files, report, start_failure))}")
    except OSError as error:
        complain(f"no second place takes the report either: {error}")
        return False
    return True


def keep(files: AttemptFiles, grace_s: float, say: Callable[[int], None], start: Start = start_command) -> int:
    """Claim the attempt, start it, stay with it. `say` tells the process that started us how that went."""
    never_make(files.run_dir)
    spare = SparePlace(files.run_dir, files.attempt)  # named now: later the run directory may not be readable
    try:
        lock = claim(files)
        if lock is None:
            say(HELD)
            return HELD
        stop_signals: list[int] = []
        wake = _become_keeper(stop_signals)
        write_keeper(files, None)
    except OSError as error:
        complain(f"the keeper of attempt {files.attempt} cannot work in {files.folder}: {error}")
        say(TRY_AGAIN)
        return TRY_AGAIN
    command = start(files)
    if isinstance(command, NotStartable):
        is_written = _write_surely(files, spare, ExitReport(None, (), None, command.reason), command.kind)
        say(NOT_STARTED)
        return NOT_STARTED if is_written else TRY_AGAIN
    say(STARTED)  # before the disk is asked again: the supervisor waits for this word
    with contextlib.suppress(OSError):  # keeper.json without the command's pid is complete enough
        write_keeper(files, command.pid)
    keeper = Keeper(files, command, grace_s, wake, stop_signals)
    report = keeper.run()
    for process in command.processes:
        process.returncode = report.command_status  # it was waited for here, not through its object
    return 0 if _write_end(files, spare, report, keeper.ranks.pids) else 1


def _write_end(files: AttemptFiles, spare: SparePlace, report: ExitReport, here: Mapping[int, int]) -> bool:
    """exit.json, or ended-here.json where a rank on another machine is not known to have ended. Where the disk cannot be read,
    that is every rank of which nothing is known."""
    argv, status, host = read_argv(files), report.command_status, _host_at_start(files)
    why = why_not_vouched(argv, status, read_printed(files))
    is_killed = status == -signal.SIGKILL and client_name(argv) in OF_SCHEDULERS
    for left in range(REPORT_TRIES, 0, -1):
        try:
            is_unheard = is_killed and not rank_files(files.heartbeats)
            ended = judge_end(files, host, report, why, here=here, is_unheard=is_unheard, job=read_job(os.environ))
            if isinstance(ended, ExitReport):
                return _write_surely(files, spare, ended)
            write_ended_here(files, ended)
            return True
        except OSError as error:
            if all(rank.source != "unknown" for rank in report.ranks):
                return _write_surely(files, spare, report)
            complain(f"{files.folder}: what ended elsewhere cannot be found out ({error}); {left - 1} tries left")
            time.sleep(REPORT_RETRY_S)
    return False


def _host_at_start(files: AttemptFiles) -> str:
    """As the ranks of this machine know it: a machine may be given another name while they run."""
    with contextlib.suppress(OSError, ValueError):
        if (keeper := read_keeper(files)) is not None:
            return keeper.host
    return socket.gethostname()


def _become_keeper(stop_signals: list[int]) -> int:
    """Adopt orphans, survive the terminal and a scheduler's warnings, and get a file that turns readable on every signal.

    Handlers that do nothing, not SIG_IGN: a command would inherit that, and never hear the signal either.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    wake, alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    signal.signal(KILL_NOW, lambda number, _: stop_signals.append(number))
    signal.signal(signal.SIGTERM, _listen(stop_signals))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    os.chdir("/")  # do not hold a filesystem that somebody wants to unmount
    return wake


def _listen(stop_signals: list[int]) -> Callable[[int, FrameType | None], None]:
    """A second SIGTERM within SAME_S is the first one heard twice."""
    last_stop_s = -SAME_S

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal last_stop_s
        del frame
        if time.monotonic() - last_stop_s >= SAME_S:
            last_stop_s = time.monotonic()
            stop_signals.append(number)

    return hear


def _detach() -> Callable[[int], None]:
    """Go on in a child with a session of its own; this process waits for what the child says and exits with it."""
    reader, writer = os.pipe()
    if os.fork() != 0:
        os.close(writer)
        status = os.read(reader, 1)
        os._exit(status[0] if status else 1)
    os.close(reader)
    os.setsid()

    def say(code: int) -> None:
        with contextlib.suppress(OSError):  # nobody waits for the word any more
            os.write(writer, bytes([code]))
        os.close(writer)

    return say


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sentinel.launcher.keeper", description="Own the processes of one attempt.")
    parser.add_argument("run_dir")
    parser.add_argument("attempt", type=int)
    parser.add_argument("--detach", action="store_true", help="go into the background once the command is started")
    parser.add_argument("--grace-s", type=float, default=GRACE_S, help="what is left after a loss gets this long, then SIGKILL")
    parser.add_argument("--direct", action="store_true", help="start the ranks of a torchrun command without torchrun")
    options = parser.parse_args(arguments)
    files = AttemptFiles.of(options.run_dir, options.attempt)
    if options.detach:
        say = _detach()
    else:
        say = lambda _: None  # noqa: E731
        with contextlib.suppress(PermissionError):  # already the leader of its group: as good as it gets
            os.setsid()
    return keep(files, options.grace_s, say, start_ranks if options.direct else start_command)


if __name__ == "__main__":
    sys.exit(main())
