"""What can be seen of an attempt from outside, by any process, after any crash: its files, its keeper, its processes.

A keeper is alive if its lock is held, or if the process named in keeper.json lives: same pid, same start time, same boot.
A reused pid or a reboot therefore never passes for a keeper; a keeper in another container or on another machine is seen by
its lock alone. What cannot be looked at is `Unseen`, and that is never taken for dead.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import STREAM_NAME
from sentinel.client.strict_json import as_float
from sentinel.launcher.beat_writers import find_beat_writers
from sentinel.launcher.containers import sees_every_process
from sentinel.launcher.elsewhere import EndedHere, describe, read_ended_here, settled_report
from sentinel.launcher.exit_report import read_object, read_pid, read_report
from sentinel.launcher.file_locks import is_locked
from sentinel.launcher.log_writers import attempt_written_by
from sentinel.launcher.process_tree import (
    Process,
    find_living,
    is_same_process,
    read_boot_id,
    read_environment,
    read_pid_namespace,
)
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Alive, AttemptView, Exited, NotStarted, Orphaned, Unseen
from sentinel.run_files.attempt_files import AttemptFiles, is_this_host, rank_files
from sentinel.run_files.cluster_job import ClusterJob, has_started_anew, job_of_json

WRITTEN_S = 60.0  # a container that was started again waits as long for what has died with it


@dataclass(frozen=True, slots=True)
class KeeperRecord:
    """keeper.json. `command_pid` is None if the keeper died, or is still busy, before it had started the command. `job`: of a
    scheduler, in which it ran. `pid_namespace`: in which its pids count; empty of an older version's."""

    pid: int
    create_time: float
    boot_id: str
    host: str
    command_pid: int | None
    job: ClusterJob | None = None
    pid_namespace: str = ""

    @property
    def is_from_this_boot(self) -> bool:
        return self.boot_id == read_boot_id()

    @property
    def is_of_another_container(self) -> bool:
        """Of this boot, and what lives beside it may not be seen from here."""
        return self.pid_namespace not in ("", read_pid_namespace()) and not sees_every_process()

    @property
    def is_living_here(self) -> bool:
        return self.is_from_this_boot and is_same_process(self.pid, self.create_time)


def read_keeper(files: AttemptFiles) -> KeeperRecord | None:
    """None when no keeper has written it. Raises OSError, and ValueError naming the file when it makes no sense."""
    value = read_object(files.keeper)
    if value is None:
        if files.keeper.exists():
            raise ValueError(f"{files.keeper}: is not a JSON object")
        return None
    try:
        return KeeperRecord(
            pid=int(value["pid"]),
            create_time=as_float(value["create_time"]),
            boot_id=str(value["boot_id"]),
            host=str(value.get("host", "")),
            command_pid=None if value.get("command_pid") is None else int(value["command_pid"]),
            job=job_of_json(value),
            pid_namespace=str(value.get("pid_namespace", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{files.keeper}: does not name a keeper ({error!r})") from error


def read_view(files: AttemptFiles, with_processes: bool = True) -> AttemptView:
    """The attempt now. Never raises; costs one look through /proc while the keeper lives (a few ms, more on a machine with
    thousands of processes). `with_processes` False: of a living keeper no processes are looked for."""
    try:
        return _observe(files, with_processes)
    except (OSError, ValueError) as error:
        return Unseen(files.attempt, f"attempt {files.attempt} cannot be looked at: {error}")


def _observe(files: AttemptFiles, with_processes: bool) -> AttemptView:
    view = _exited(files)
    if view is not None:
        return _kept_alive(files) or view
    keeper = read_keeper(files)
    if keeper is not None and keeper.is_living_here:
        return Alive(files.attempt, keeper.pid, _pids(find_living(roots=(keeper.pid,))) if with_processes else ())
    if is_locked(files.lock):
        return Alive(files.attempt, 0 if keeper is None else keeper.pid, ())
    view = _exited(files)  # it may have been written, and the keeper gone, since the first look
    if view is not None:
        return view
    if keeper is None:
        return _never_kept(files)
    ended = read_ended_here(files)
    return _keeper_dead(files, keeper) if ended is None else _ended_here(files, ended)


def _ended_here(files: AttemptFiles, ended: EndedHere) -> AttemptView:
    """Nothing lives where its keeper was. The proof for the rest may have come since."""
    report, ranks = settled_report(files, ended)
    if report is not None:
        return Exited(files.attempt, report)
    return Unseen(files.attempt, describe(ranks, ended.why, files), ranks, has_ended_here=True)


def _exited(files: AttemptFiles) -> Exited | None:
    report = read_report(files)
    return None if report is None else Exited(files.attempt, report)


def _kept_alive(files: AttemptFiles) -> Alive | None:
    """The attempt although it has an exit record: a keeper writes that when nothing lives below it, so that this one is none of
    its. Its own takes the place of it in the end."""
    with suppress(OSError, ValueError):
        keeper = read_keeper(files)
        if keeper is not None and keeper.is_living_here and (below := find_living(roots=(keeper.pid,))):
            return Alive(files.attempt, keeper.pid, _pids(below))
    return None


def _never_kept(files: AttemptFiles) -> AttemptView:
    if not files.run_dir.is_dir():
        return Unseen(files.attempt, f"the run directory {files.run_dir} is not there; is its filesystem mounted?")
    if files.keeper.exists():
        return Alive(files.attempt, 0, ())  # a keeper came up between two looks
    return NotStarted(files.attempt)


def _keeper_dead(files: AttemptFiles, keeper: KeeperRecord) -> AttemptView:
    if keeper.is_from_this_boot and keeper.is_of_another_container and _wrote_lately(files):
        return Unseen(
            files.attempt,
            f"its keeper (pid {keeper.pid}) is of another container of this machine and has gone, and its processes cannot be "
            f"seen from here: something was written in the last {time_words(WRITTEN_S)}",
        )
    if keeper.is_from_this_boot:
        return Orphaned(files.attempt, _pids(find_orphans(files)), f"its keeper (pid {keeper.pid}) died without a report")
    if keeper.host == socket.gethostname():
        return Orphaned(files.attempt, (), f"{keeper.host} was restarted under its keeper")
    if has_started_anew(keeper.job, os.environ):
        return Orphaned(files.attempt, (), f"its keeper ran on {keeper.host}, and the scheduler has started that job anew since")
    remedy = f'if that machine is gone for good, write {{"command_status":null,"ranks":[]}} to {files.exit}'
    return Unseen(files.attempt, f"its keeper ran on {keeper.host} and no sign of it reaches {socket.gethostname()}; {remedy}")


def _wrote_lately(files: AttemptFiles) -> bool:
    """Whether a rank has written a heartbeat or a line in the last WRITTEN_S. Raises OSError."""
    places = [files.folder / STREAM_NAME, *(Path(entry.path) for entry in rank_files(files.heartbeats).values())]
    return any(place.exists() and time.time() - place.stat().st_mtime < WRITTEN_S for place in places)


def find_orphans(files: AttemptFiles) -> tuple[Process, ...]:
    """What lives of an attempt whose keeper does not: what carries its mark, writes its logs or its heartbeats, and what is below
    that.

    Not by the command's session: its number may long belong to strangers.
    """
    beating: frozenset[int] = frozenset()
    with suppress(OSError, ValueError):
        keeper = read_keeper(files)
        if keeper is not None and keeper.is_from_this_boot:
            beating = find_beat_writers(files, keeper.command_pid)

    def is_of_it(pid: int) -> bool:
        return pid in beating or attempt_written_by(pid, files.run_dir) == files.attempt

    return find_living(marks=files.environment, also=is_of_it)


def find_ranks(files: AttemptFiles, view: AttemptView, command_pid: int | None) -> tuple[int, ...]:
    """The pids of the ranks among the attempt's processes that were seen. Raises OSError."""
    return pick_ranks(files, set(view.pids) if isinstance(view, (Alive, Orphaned)) else set(), command_pid)


def pick_ranks(files: AttemptFiles, pids: set[int], command_pid: int | None) -> tuple[int, ...]:
    """Which of the attempt's processes are ranks. Raises OSError.

    By their heartbeats; before the first one by RANK in the environment (the uppermost processes that have it); and with
    neither, the command itself is the only rank.
    """
    beats = (read_object(entry.path) for entry in rank_files(files.heartbeats).values())
    beating = {read_pid(beat) for beat in beats if beat is not None and is_this_host(beat.get("host"))} - {None}
    if beating:
        return tuple(sorted(pids & beating))
    processes = {process.pid: process for process in find_living(marks=files.environment) if process.pid in pids}
    ranked = {pid for pid in processes if any(entry.startswith(b"RANK=") for entry in read_environment(pid))}
    uppermost = tuple(sorted(pid for pid in ranked if processes[pid].parent not in ranked))
    return uppermost or ((command_pid,) if command_pid in pids and command_pid is not None else ())


def _pids(processes: tuple[Process, ...]) -> tuple[int, ...]:
    return tuple(process.pid for process in processes)
