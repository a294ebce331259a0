"""What a process waits for, as its kernel shows it: a processor, a filesystem, or nothing that is known.

Standard library alone, since the keeper uses it.
"""

from __future__ import annotations

from sentinel.launcher.process_tree import Process, read_process


def read_starved_s(pid: int) -> float:
    """For how many seconds of its life the main thread of a process was ready to run and had no processor. 0.0 where it is gone,
    or where the kernel does not count that: the second field of /proc/PID/schedstat, Documentation/scheduler/sched-stats.rst."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def read_kernel_place(pid: int, thread: int | None = None) -> str:
    """The function of the kernel in which a process (or one thread of it) waits; empty where it runs, or where that is hidden. It
    tells which filesystem does not answer: a name with rpc or nfs in it is NFS."""
    try:
        with open(f"/proc/{pid}/task/{thread or pid}/wchan", encoding="ascii") as file:
            place = file.read().strip()
    except (OSError, ValueError):
        return ""
    return place if place.isidentifier() else ""


def is_thread_runnable(thread: int) -> bool:
    """Whether a thread of this very process computes, or waits for nothing but a processor. False where that cannot be read."""
    try:
        with open(f"/proc/self/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[:1] == ["R"]
    except OSError:
        return False


def read_name(pid: int) -> str:
    """The name of the program it runs, as the kernel has it (15 bytes of it); empty where it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return "".join(char if char.isprintable() else "?" for char in file.read().strip())
    except OSError:
        return ""


def describe_stuck(process: Process) -> str:
    """A process that does not end, for a person: 4711 (python, state D, waits in rpc_wait_bit_killable). Its command line is not
    read: that can wait for the very thing the process waits for."""
    name = read_name(process.pid)
    now = read_process(process.pid)
    place = read_kernel_place(process.pid)
    parts = (name, f"state {process.state if now is None else now.state}", f"waits in {place}" if place else "")
    return f"{process.pid} ({', '.join(part for part in parts if part)})"
