"""Ranks of an attempt by their heartbeats, for those that neither their environment nor their output shows any more.

A heartbeat names a pid, a host and a boot. That alone is no proof: anybody can write it, and a pid is used again. A rank keeps
its heartbeat file open and writes it over in place, so that the kernel tells: the process that is named has that very file open
for writing. Only such a process is a rank for sure, and may be signalled. Who writes the file otherwise (by renaming, from
another pid namespace) is not known; while such a heartbeat goes on changing, the attempt has not ended.
"""

from __future__ import annotations

import os
import time

from sentinel.client.machine import read_boot_id
from sentinel.clock import boot_s
from sentinel.launcher.elsewhere import LOOK_EVERY_S, QUIET_S, BeatsSince
from sentinel.launcher.exit_report import read_object, read_pid
from sentinel.launcher.process_tree import Process, read_process
from sentinel.model.attempts import RankElsewhere
from sentinel.run_files.attempt_files import AttemptFiles, is_own_name, is_this_host, rank_files

_CLOCKS_S = 60.0  # a file server's clock and this one's may be that far apart
_DEPTH_MAX = 64  # of parents


def find_beat_writers(files: AttemptFiles, command_pid: int | None = None) -> frozenset[int]:
    """The pids of living ranks that are known for sure, and the attempt's command where it is above one. Raises OSError."""
    named = {rank: pid for rank, (pid, _) in _named_here(files).items()}
    found = {pid for rank, pid in named.items() if _has_open(pid, rank_files(files.heartbeats)[rank].path)}
    return frozenset(found | {command_pid} if command_pid is not None and _is_above(command_pid, found) else found)


def find_beating_on(files: AttemptFiles, ended: frozenset[int]) -> int | None:
    """A rank of this machine whose heartbeat changes although nothing that is known of the attempt lives. `ended`: pids that were
    seen to be the attempt's. Waits for QUIET_S where a process has such a pid that may be the rank. Raises OSError."""
    asked = {rank: (pid, beat_s) for rank, (pid, beat_s) in _named_here(files).items() if pid not in ended}
    if not asked:
        return None
    since = BeatsSince(files, tuple(RankElsewhere(rank, "", pid) for rank, (pid, _) in asked.items()), time.monotonic())
    may_live = any(_may_be(pid, beat_s) for pid, beat_s in asked.values())
    while not since.beating:
        if may_live:
            time.sleep(LOOK_EVERY_S)
        since.look()
        if not may_live or time.monotonic() - since.began_s >= QUIET_S:
            break
    return min(since.beating, default=None)


def _named_here(files: AttemptFiles) -> dict[int, tuple[int, float]]:
    """By rank, the pid that a heartbeat of this boot of this machine names, and when the file was written."""
    found, exited = {}, rank_files(files.exits)
    for rank, entry in rank_files(files.heartbeats).items():
        beat = None if rank in exited else read_object(entry.path)
        pid = None if beat is None else read_pid(beat)
        if beat is None or pid is None or pid in (1, os.getpid()):
            continue
        is_here = is_this_host(beat.get("host")) or is_own_name(beat.get("host")) or bool(beat.get("boot_id"))
        if is_here and beat.get("boot_id") in (None, "", read_boot_id()):
            found[rank] = pid, os.stat(entry.path).st_mtime
    return found


def _may_be(pid: int, beat_s: float) -> bool:
    """Whether a living process with this pid was there when the heartbeat was written."""
    process = read_process(pid)
    if process is None or not process.is_living or process.is_kernels:
        return False
    return time.time() - (boot_s() - process.create_time) <= beat_s + _CLOCKS_S


def _has_open(pid: int, path: str) -> bool:
    """Whether the process has the file open for writing; False where it cannot be looked at."""
    folder = f"/proc/{pid}/fd"
    try:
        wanted, numbers = os.stat(path), os.listdir(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            if os.path.samestat(os.stat(f"{folder}/{number}"), wanted) and _is_for_writing(pid, number):
                return True
        except OSError:
            continue
    return False


def _is_for_writing(pid: int, number: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
        flags = next((int(line.split()[1], 8) for line in file if line.startswith("flags:")), os.O_RDONLY)
    return flags & os.O_ACCMODE != os.O_RDONLY


def _is_above(pid: int, ranks: set[int]) -> bool:
    """Whether the process is a parent, near or far, of one of these: then nobody else can have its pid by now."""
    for rank in ranks:
        process: Process | None = read_process(rank)
        for _ in range(_DEPTH_MAX):
            if process is None or process.parent <= 1:
                break
            if process.parent == pid:
                return True
            process = read_process(process.parent)
    return False
