"""Which process is meant: a pid alone is reused, so it goes with the process's start and the boot it belongs to."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import psutil

from sentinel.launcher.process_tree import read_boot_id, read_pid_namespace, read_process, signal_exactly

# For a lease of an older version alone: its create time is boot time plus ticks, and the boot time moves when the clock is set.
_CREATE_TIME_SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, anywhere, at any time. `create_time` is Unix seconds, for people: it moves when the clock is set. `boot_id`
    names one boot of one machine; with it `since_boot_s` (start, seconds since boot; None: written by an older version) is exact.
    `pid_namespace`: in which the pid counts, as /proc names it; empty where that is not known."""

    host: str
    pid: int
    create_time: float
    boot_id: str
    since_boot_s: float | None = None
    pid_namespace: str = ""


def read_own_identity() -> ProcessIdentity:
    pid = os.getpid()
    process = read_process(pid)
    since_boot_s = process.create_time if process is not None else None
    created = psutil.Process().create_time()
    return ProcessIdentity(socket.gethostname(), pid, created, read_boot_id(), since_boot_s, read_pid_namespace())


def is_of_this_boot(who: ProcessIdentity) -> bool:
    """True for a process of this machine since it was started, though perhaps of another container."""
    return who.boot_id == read_boot_id()


def is_here(who: ProcessIdentity) -> bool:
    """True when the process belongs to this boot of this machine and to this pid namespace, so that its pid means something."""
    return is_of_this_boot(who) and who.pid_namespace in ("", read_pid_namespace())


def is_alive(who: ProcessIdentity) -> bool | None:
    """Whether exactly this process lives here, whatever the clock was set to. None where that cannot be seen from here: it is of
    another boot, machine or container; it is hidden; or of its start only a time is known, by a clock that was set since."""
    if not is_here(who):
        return None
    process = read_process(who.pid)
    if process is None:
        return None if _is_hidden(who.pid) else False
    if not process.is_living:
        return False
    if who.since_boot_s is not None:
        return process.create_time == who.since_boot_s
    try:
        return True if abs(psutil.Process(who.pid).create_time() - who.create_time) <= _CREATE_TIME_SLACK_S else None
    except (psutil.Error, OverflowError):
        return None


def _is_hidden(pid: int) -> bool:
    """Whether somebody has the pid whom /proc does not show (it may be mounted with hidepid)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def send_signal(who: ProcessIdentity, signal_number: int) -> bool:
    """Signal exactly this process; False when it does not live here. A process that took over its pid is never hit.

    Raises:
        PermissionError: it lives, and belongs to another user.
    """
    return signal_exactly(who.pid, lambda: is_alive(who) is True, signal_number)
