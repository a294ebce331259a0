"""Which machine this is, whatever a container calls it."""

from __future__ import annotations

import os
import socket

NODE_VARIABLE = "SENTINEL_NODE"  # by which a launcher tells a container on which machine it is


def read_host() -> str:
    """Its name: the node's where a launcher says it, else this machine's own. A container's name says nothing of what may be
    sick."""
    return os.environ.get(NODE_VARIABLE) or socket.gethostname()


def read_boot_id() -> str:
    """This boot of this machine, as its kernel names it (proc_sys_kernel(5)); the same in every container of it. Empty where the
    kernel names none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
