"""Processes as /proc shows them: who descends from whom, who carries an attempt's mark, and how to end them all.

Two ways to find a process of an attempt, because each alone misses some: by descent (misses what was re-parented after
its keeper died) and by SENTINEL_RUN_DIR and SENTINEL_ATTEMPT in its environment (misses what cleared or overwrote it).
A process is known by pid *and* start time, so that a pid used again is never taken for the old one; start times count
from boot and are exact together with `boot_id`. Read from /proc directly, not through psutil: the keeper uses this file
too and starts with the standard library alone. It may import `time`: its waits are about real processes.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sentinel.client import machine

if TYPE_CHECKING:
    import subprocess

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DEAD_STATES = "ZXx"
_STAT_BYTES = 4096  # a line has some 350
_PF_KTHREAD = 0x00200000  # of the flags in it (include/linux/sched.h)
_CONFIRM_S = 0.02  # a process in the middle of exec shows no environment for an instant: "none" must hold twice
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/PID/stat. `create_time` is in seconds since boot; `ended` is a zombie's exit value, else None.
    `is_kernels`: a thread of the kernel's, which has no environment."""

    pid: int
    parent: int
    state: str
    create_time: float
    ended: int | None = None
    is_kernels: bool = False

    @property
    def is_living(self) -> bool:
        return self.state not in _DEAD_STATES


def read_boot_id() -> str:
    """This boot of this machine: pids and start times mean nothing beyond it. The host's name where the kernel names no boot."""
    return machine.read_boot_id() or socket.gethostname()


def read_pid_namespace() -> str:
    """In which pids count here, as /proc names it; empty where that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def read_process(pid: int) -> Process | None:
    """The process now, zombies included; None when there is none, or none that may be seen (a /proc with hidepid)."""
    try:
        text = _read_stat(pid)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the command's name, in brackets, may hold anything
    state = fields[0].decode("ascii")
    ended = os.waitstatus_to_exitcode(int(fields[49])) if state == "Z" else None
    is_kernels = int(fields[6]) & _PF_KTHREAD != 0
    return Process(pid, int(fields[1]), state, int(fields[19]) / _TICKS_PER_S, ended, is_kernels)


def _read_stat(pid: int) -> bytes:
    """In one call of the kernel's: a walk over every process reads thousands of such files, and a relaunch waits for it."""
    handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _STAT_BYTES)
    finally:
        os.close(handle)


def read_processes() -> dict[int, Process]:
    """Every process of this machine (of this pid namespace) that could be read, by pid."""
    read = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in read if process is not None}


def is_same_process(pid: int, create_time: float) -> bool:
    """Whether the process with this pid is the one that started at `create_time`, and lives (a zombie does not)."""
    process = read_process(pid)
    return process is not None and process.is_living and process.create_time == create_time


def read_environment(pid: int) -> frozenset[bytes]:
    """The `NAME=value` entries a process was started with; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return frozenset(file.read().split(b"\0"))
    except OSError:
        return frozenset()


def is_marked(pid: int, marks: Mapping[str, str]) -> bool:
    """Whether the process carries every one of these variables in its environment."""
    return {os.fsencode(f"{name}={value}") for name, value in marks.items()} <= read_environment(pid)


def find_descendants(processes: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """The pids below `roots`, the roots themselves left out."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    below: set[int] = set()
    open_ends = list(roots)
    while open_ends:
        for pid in children.get(open_ends.pop(), ()):
            if pid not in below:
                below.add(pid)
                open_ends.append(pid)
    return below


def find_living(
    roots: Iterable[int] = (), marks: Mapping[str, str] | None = None, also: Callable[[int], bool] | None = None
) -> tuple[Process, ...]:
    """The living processes below `roots`, and those with the `marks` and below; without the roots and this process. `also`: who
    else is as good as marked, by pid."""
    processes = read_processes()
    top = set(roots)
    asked = () if marks is None else (pid for pid, process in processes.items() if not process.is_kernels)
    members = {pid for pid in asked if is_marked(pid, marks or {}) or (also is not None and also(pid))}
    members |= find_descendants(processes, members | top)
    members -= {os.getpid()} | top
    return tuple(processes[pid] for pid in sorted(members) if processes[pid].is_living)


def send_signal(process: Process, signal_number: int) -> bool:
    """Send to exactly this process, never to a later owner of its pid; False when it is gone or not ours to signal."""
    try:
        return signal_exactly(process.pid, lambda: is_same_process(process.pid, process.create_time), signal_number)
    except PermissionError:
        return False


def signal_exactly(pid: int, is_meant: Callable[[], bool], signal_number: int) -> bool:
    """Signal whoever has this pid if `is_meant` says that it is the one; False when nobody has it, or another.

    Raises:
        PermissionError: it is the one, and belongs to another user.
    """
    try:
        handle = os.pidfd_open(pid)  # from here on the number cannot come to mean another process
    except OverflowError:
        return False
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL):  # nobody, or the number of a thread
            return False
        raise
    try:
        if not is_meant():
            return False
        signal.pidfd_send_signal(handle, signal_number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def wait_gone(pid: int, create_time: float, timeout_s: float) -> bool:
    """Wait until the process has ended (it may stay a zombie); True when it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return not is_same_process(pid, create_time) or _has_ended(handle, timeout_s)
    finally:
        os.close(handle)


def wait_child(child: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """The exit status of a child, in the instant it ends; None when it has not by then. (Popen's own wait with a limit looks
    every 50 ms.)"""
    handle = os.pidfd_open(child.pid)  # nobody else waits for it, so the pid is its own until it is waited for here
    try:
        return child.wait() if _has_ended(handle, timeout_s) else None
    finally:
        os.close(handle)


def _has_ended(handle: int, timeout_s: float) -> bool:
    waiter = select.poll()
    waiter.register(handle, select.POLLIN)
    return bool(waiter.poll(max(0.0, timeout_s) * 1000))


def kill_until_none(find: Callable[[], tuple[Process, ...]], timeout_s: float) -> tuple[Process, ...]:
    """SIGKILL what `find` finds until it finds nothing twice; returns what still lives when the time is up."""
    deadline = time.monotonic() + timeout_s
    empty_before = False
    while True:
        found = find()
        if not found and empty_before:
            return ()
        empty_before = not found
        for process in found:
            send_signal(process, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return found
        if found:
            wait_gone(found[0].pid, found[0].create_time, _LOOK_AGAIN_S)
        else:
            time.sleep(_CONFIRM_S)
