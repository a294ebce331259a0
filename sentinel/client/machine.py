"""Which machine this is, whatever a container calls it."""

from __future__ import annotations


def read_boot_id() -> str:
    """This boot of this machine, as its kernel names it (proc_sys_kernel(5)); the same in every container of it. Empty where the
    kernel names none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
