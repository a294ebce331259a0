"""What the environment of a rank's process tells of it."""

from __future__ import annotations

from sentinel.launcher.process_tree import read_environment
from sentinel.run_files.attempt_files import is_own_name


def is_rank_by_another_name(rank: int, host: object, pid: int) -> bool:
    """Whether a living process of the attempt is the rank whose heartbeat has its pid and calls the machine `host`.

    A machine may have several names, or another one than when it started. The pid alone could be another machine's: the process
    must have the RANK, too, or the heartbeat say that the machine is its own."""
    return is_own_name(host) or b"RANK=%d" % rank in read_environment(pid)


def local_world_size(pid: int) -> int:
    """How many ranks its launcher started on this machine; 1 where that is not told."""
    sizes = [entry.partition(b"=")[2] for entry in read_environment(pid) if entry.startswith(b"LOCAL_WORLD_SIZE=")]
    return int(sizes[0]) if sizes and sizes[0].isdigit() else 1
