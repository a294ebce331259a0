"""Locks on files of an attempt. Whoever holds one lives: the kernel lets go of it when its last process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sentinel.client.closed_files import open_closed


def try_lock(path: Path) -> int | None:
    """The descriptor that holds it, for the caller to close; None while another has it. The file is made. Raises OSError."""
    lock = open_closed(path, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def is_locked(path: Path) -> bool:
    """Whether somebody holds it. Looks through a shared lock, which two who look do not refuse each other. Raises OSError."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
