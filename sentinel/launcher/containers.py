"""Ranks in a container of this machine: they beat under the container's host name, with a pid of the container's own count, and
are below the container's daemon and not below the keeper.

The kernel is the same, and says two things. The boot id in a heartbeat is this machine's (proc_sys_kernel(5),
`random/boot_id`). And /proc shows to whoever stands in the first pid namespace every process of the machine, with its pid in its
own namespace (NSpid, proc_pid_status(5)). Where no process can be the rank, it has ended. Where one can, or not all are seen,
nothing is known.
"""

from __future__ import annotations

import os

from sentinel.launcher.process_tree import read_boot_id, read_pid_namespace, read_process

FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux (include/linux/proc_ns.h): every process is in it
_PIDS = b"NSpid:"


def has_ended_here(boot_id: object, pid: int | None, started_s: float) -> bool:
    """Whether the rank that beat with this boot id and pid ran on this machine, and has ended. False where that is not known.

    Args:
        boot_id: Of the heartbeat; of a client that told none, nothing is known.
        pid: As the rank itself sees it.
        started_s: Seconds since boot at which its attempt was started: what is older is no rank of it.
    """
    if pid is None or boot_id != read_boot_id() or not sees_every_process():
        return False
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        own_pid = _pid_in_its_namespace(int(name))
        if own_pid is None:
            return False  # a process that is there and cannot be read
        process = read_process(int(name)) if own_pid == pid else None
        if process is not None and process.is_living and process.create_time >= started_s:
            return False
    return True


def sees_every_process() -> bool:
    return read_pid_namespace() == FIRST_NAMESPACE


def _pid_in_its_namespace(pid: int) -> int | None:
    """0 for a process that is gone by now; None for one that cannot be read (a /proc with hidepid)."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next((line for line in file if line.startswith(_PIDS)), b"")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return None
    return int(line.split()[-1]) if line else None
