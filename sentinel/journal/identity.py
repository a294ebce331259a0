"""Which process is meant: a pid alone is reused, so it goes with the process's create time and the boot it belongs to."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import psutil

from sentinel.launcher.process_tree import read_boot_id, signal_exactly

# The create time is boot time plus ticks, and the boot time moves when the clock is set. No pid comes round within it.
_CREATE_TIME_SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, anywhere, at any time. `create_time` is Unix seconds; `boot_id` names one boot of one machine."""

    host: str
    pid: int
    create_time: float
    boot_id: str


def read_own_identity() -> ProcessIdentity:
    return ProcessIdentity(socket.gethostname(), os.getpid(), psutil.Process().create_time(), read_boot_id())


def is_here(who: ProcessIdentity) -> bool:
    """True when the process belongs to this boot of this machine, so that its pid means something here."""
    return who.boot_id == read_boot_id()


def is_alive(who: ProcessIdentity) -> bool:
    """True when exactly this process lives here. False for another boot or machine: it cannot be seen from here."""
    if not is_here(who):
        return False
    try:
        process = psutil.Process(who.pid)
        same = abs(process.create_time() - who.create_time) <= _CREATE_TIME_SLACK_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied, OverflowError):
        return False


def send_signal(who: ProcessIdentity, signal_number: int) -> bool:
    """Signal exactly this process; False when it does not live here. A process that took over its pid is never hit.

    Raises:
        PermissionError: it lives, and belongs to another user.
    """
    return signal_exactly(who.pid, lambda: is_alive(who), signal_number)
