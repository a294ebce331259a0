"""The keeper's first half second: claim the attempt, say who keeps it, start its command.

The order matters: keeper.lock, then keeper.json, then the command. Whoever finds keeper.json or exit.json finds an attempt
that was started (or may have been), and never starts it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import closed
from sentinel.client.strict_json import dumps
from sentinel.launcher.exit_report import ORDERLY_EXITS, StartFailure, read_object
from sentinel.launcher.file_locks import try_lock
from sentinel.launcher.process_tree import read_boot_id, read_pid_namespace, read_process
from sentinel.launcher.torchrun_table import FailureTable
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, EXCLUDE_VARIABLE, LAUNCH_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles
from sentinel.run_files.cluster_job import job_to_json, read_job

CLAIM_TRIES, CLAIM_RETRY_S = 100, 0.01  # somebody who only looks whether the lock is held has it for microseconds
_PASSING_ERRORS = {errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.ETXTBSY, errno.EIO, errno.ESTALE}


@dataclass(frozen=True, slots=True)
class Started:
    """The command's process; without torchrun, that of each rank (`is_agentless`). Kept, never polled: the keeper waits for every
    child itself."""

    processes: tuple[subprocess.Popen[bytes], ...]
    is_agentless: bool = False

    @property
    def pid(self) -> int | None:
        """The command's own; None where there is none but its ranks."""
        return None if self.is_agentless else self.processes[0].pid

    def status_of(self, ended: Mapping[int, int]) -> int | None:
        """The command's status from the values of what has ended, by pid; None while it goes on. For ranks without torchrun it is
        torchrun's: 0 where all left with 0, 1 where one did not, at once where that was no orderly end."""
        values = [ended[process.pid] for process in self.processes if process.pid in ended]
        if len(values) < len(self.processes) and all(value in ORDERLY_EXITS for value in values):
            return None
        return int(any(values)) if self.is_agentless else values[0]

    def table_of(self, ended: Mapping[int, int]) -> FailureTable:
        """What torchrun would print: the ranks that failed, the first of them first. `ended`: in the order in which they did."""
        ranks = {process.pid: rank for rank, process in enumerate(self.processes)}
        failed = [pid for pid, value in ended.items() if value not in ORDERLY_EXITS]
        root = ranks[failed[0]] if failed else None
        return FailureTable({ranks[pid]: ended[pid] for pid in failed}, {ranks[pid]: pid for pid in failed}, root)


@dataclass(frozen=True, slots=True)
class NotStartable:
    """`kind` is 'certain' when the same command can never start here, 'passing' when it may later."""

    reason: str
    kind: StartFailure


def claim(files: AttemptFiles) -> int | None:
    """Take the attempt's lock for the life of this process (children do not inherit it).

    Returns the open file, None when another keeper has or had the attempt. Raises OSError when locking does not work.
    """
    files.make_folders()
    for _ in range(CLAIM_TRIES):
        if (lock := try_lock(files.lock)) is not None:
            break
        time.sleep(CLAIM_RETRY_S)
    else:
        return None
    if files.keeper.exists() or files.exit.exists():
        os.close(lock)
        return None
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    return lock


def write_keeper(files: AttemptFiles, command_pid: int | None) -> None:
    """keeper.json. `create_time` is in seconds since boot: with `boot_id` it names this process for ever. Raises OSError."""
    me = read_process(os.getpid())
    assert me is not None, "this process is in /proc"
    value = {"v": 1, "pid": me.pid, "create_time": me.create_time, "boot_id": read_boot_id(), "host": socket.gethostname()}
    value |= {"pid_namespace": read_pid_namespace()}
    value |= {"started_at": time.time(), "command_pid": command_pid} | job_to_json(read_job(os.environ))
    write_atomically(files.keeper, dumps(value).encode() + b"\n")


def start_command(files: AttemptFiles) -> Started | NotStartable:
    """Start argv of spec.json in its cwd and a session of its own, its output appended to logs/launcher.{out,err}."""
    order = read_order(files)
    if isinstance(order, NotStartable):
        return order
    environment = own_environment() | order.variables
    try:
        with open_logs(files) as (out, err):
            process = subprocess.Popen(
                order.argv, cwd=order.cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        return not_startable(order.argv[0], order.cwd, error)
    except ValueError as error:  # a NUL in a word
        return NotStartable(f"the command {order.argv!r} cannot be started: {error}", "certain")
    return Started((process,))


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What spec.json asks to be started. `variables`: of this attempt, beside those that the keeper hands on of its own."""

    argv: list[str]
    cwd: str
    variables: dict[str, str]


def read_order(files: AttemptFiles) -> StartOrder | NotStartable:
    try:
        spec = read_object(files.spec)
    except OSError as error:
        return NotStartable(f"{files.spec}: cannot be read ({error.strerror})", "passing")
    argv = None if spec is None else spec.get("argv")
    if spec is None or not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return NotStartable(f"{files.spec}: argv: is not a list of words; sentinel writes it before a launch", "certain")
    added = spec.get("env")
    variables = {str(name): str(value) for name, value in (added if isinstance(added, dict) else {}).items()}
    return StartOrder(argv, spec.get("cwd") or str(files.run_dir), variables | files.environment)


def own_environment() -> dict[str, str]:
    """This process's variables without those of an attempt, should it run inside another one."""
    ours = (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE, LAUNCH_VARIABLE, EXCLUDE_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in ours}


@contextlib.contextmanager
def open_logs(files: AttemptFiles) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """For the command's output and errors. Raises OSError."""
    with open(files.logs / "launcher.out", "ab", opener=closed) as out, open(files.launcher_err, "ab", opener=closed) as err:
        yield out, err


def not_startable(program: str, cwd: str, error: OSError) -> NotStartable:
    kind: StartFailure = "passing" if error.errno in _PASSING_ERRORS else "certain"
    if not os.path.isdir(cwd):
        return NotStartable(f"the command cannot be started: its working directory {cwd} is not a directory", kind)
    remedy = {
        errno.ENOENT: "no such program (or its interpreter is missing); check the path, or PATH",
        errno.EACCES: "not executable; chmod +x it, or put its interpreter in front",
        errno.ENOEXEC: "not a program; put its interpreter in front",
    }
    reason = remedy.get(error.errno or 0, error.strerror or str(error))
    return NotStartable(f"the command {program!r} cannot be started in {cwd}: {reason}", kind)


def complain(words: str) -> None:
    """To keeper.err, as far as it can be written: it lies on the very disk that may be full, and a keeper outlives that."""
    with contextlib.suppress(OSError, ValueError):
        print(words, file=sys.stderr, flush=True)
