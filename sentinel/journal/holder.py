"""Whether the supervisor that a lease names lives, as far as that can be seen from here.

A clock that somebody sets says nothing about it. In this boot of this machine the process itself is asked, known by its pid and
its start in ticks; where it cannot be seen (another container, a /proc that hides it), the time since boot tells how old the
lease is. Only between machines the wall clocks must do.

    judge_holder(run_dir, read_lease(run_dir))      # "alive"
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sentinel.client.run_layout import LEASE_NAME
from sentinel.clock import SystemClock, boot_s
from sentinel.journal.identity import is_alive, is_of_this_boot
from sentinel.journal.lease import LeaseRecord
from sentinel.launcher.process_tree import read_process
from sentinel.launcher.process_waits import read_kernel_place
from sentinel.model.amounts import time_words

STUCK_AFTER = 2.5  # renewals: two were left out, and half of the third one's time
STOPPED = ("T", "t")  # by a signal, by a debugger (proc(5))

Supervisor = Literal["alive", "stuck", "gone", "unknown"]


def judge_holder(run_dir: Path, record: LeaseRecord | None) -> Supervisor:
    """`record`: what stands in lease.json, None where nobody ever supervised. "stuck": its process lives, and its loop does not
    turn. "unknown": nothing that is seen from here tells."""
    if record is None or record.released:
        return "gone"
    lives = is_alive(record.holder)
    if lives is not None:
        return ("stuck" if why_stuck(record) else "alive") if lives else "gone"
    if is_of_this_boot(record.holder) and record.renewed_boot_s is not None:
        return "alive" if boot_s() - record.renewed_boot_s < record.lasts_s else "gone"
    return _judge_age(run_dir, record.lasts_s)


def why_stuck(record: LeaseRecord) -> str:
    """What holds up the living supervisor of this lease, which is of this machine; empty where its loop turns."""
    process = read_process(record.holder.pid)
    if process is not None and process.state in STOPPED:
        return f"its process {process.pid} was stopped by a signal; it goes on with: kill -CONT {process.pid}"
    if record.renewed_boot_s is None or (still_s := boot_s() - record.renewed_boot_s) < STUCK_AFTER * record.renew_every_s:
        return ""
    where = f" (it waits in the kernel: {place})" if (place := read_kernel_place(record.holder.pid)) else ""
    still = f"its loop has stood still for {time_words(still_s)}{where}"
    return f"{still}; most likely the filesystem of the run directory does not answer"


def _judge_age(run_dir: Path, lasts_s: float) -> Supervisor:
    """By the wall clock. A lease that was renewed in the future shows that the clocks differ, and then its age means nothing."""
    try:
        age_s = SystemClock().wall_s() - (run_dir / LEASE_NAME).stat().st_mtime
    except OSError:
        return "unknown"
    if age_s <= -lasts_s:
        return "unknown"
    return "alive" if age_s < lasts_s else "gone"
