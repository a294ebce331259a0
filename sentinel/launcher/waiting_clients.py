"""Programs that start ranks on other machines and wait for them: srun, mpirun and their like. Their processes here are clients
only: SIGKILL to one ends nothing elsewhere, and its end says something of the ranks only where it came to it by itself.

What srun does (slurm 22.05; its words are in public logs): at SIGTERM it sends SIGKILL to every task of its step ("forcing job
termination") and waits for them for KillWait and 2 s more ("Waiting up to 32 seconds for job step to finish"). It leaves when
slurmstepd on every node has reaped its task. Where that takes longer it gives up, says so, and the tasks may live.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Sequence

from sentinel.launcher.process_tree import Process, send_signal, wait_gone
from sentinel.launcher.process_waits import read_name

OF_SCHEDULERS = ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
OF_CONTAINERS = ("docker", "podman", "nerdctl")  # their ranks name another host than this one, and live on it
CLIENTS = OF_SCHEDULERS + OF_CONTAINERS
WRAPPERS = ("env", "nice", "nohup", "setsid", "stdbuf", "time", "timeout", "ionice", "numactl", "taskset", "sudo")
GRACE_S = 45.0  # from SIGTERM to a client until SIGKILL: srun's own patience is KillWait and 2 s, 32 s by default
LINES_READ = 400
# A client that leaves its tasks behind says so.
_LEFT_BEHIND = re.compile(
    r"Timed out waiting for job step to complete|Error waiting on condition in \w+|has lost communication with a remote daemon"
)
# A client inside a script: it lived to tell how its tasks ended.
_TASKS_ENDED = re.compile(
    r"srun: (?:error: \S+: tasks? [\d,\- ]+: |Terminating |Force Terminated )|(?:mpirun|prterun) (?:noticed|detected) that"
)


def client_name(argv: Sequence[str]) -> str:
    """The client that this command is, behind wrappers such as `nice -n 10`; empty where it is none that is known."""
    is_behind_wrapper = False
    for word in argv:
        name = os.path.basename(word)
        if name in CLIENTS:
            return name
        is_behind_wrapper = is_behind_wrapper or name in WRAPPERS
        if not is_behind_wrapper:
            return ""
        if name not in WRAPPERS and not re.fullmatch(r"-.*|\d[\d.smhd]*|\w+=.*", word):
            return ""
    return ""


def why_not_vouched(argv: Sequence[str], status: int | None, printed: str) -> str:
    """Why the end of the command does not say that everything it started elsewhere has ended; empty where it does. `status`: of
    the command, negative for a signal, None where nobody saw it. `printed`: the end of its log."""
    lines = printed.splitlines()[-LINES_READ:]
    name = client_name(argv)
    if not name and not any(map(_TASKS_ENDED.search, lines)):
        return "the command is not known to wait for what it starts on other machines"
    if status is None:
        return f"nobody saw how {name or 'the command'} ended"
    if status < 0:
        return f"{name or 'the command'} was killed before it could end what it had started"
    left = next((line.strip() for line in lines if _LEFT_BEHIND.search(line) is not None), "")
    return f"{name or 'its client'} did not wait for all of it: {left[:200]}" if left else ""


class SoftEnd:
    """Clients are asked by SIGTERM to end what they started, and get GRACE_S for it before they are killed."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, float], float] = {}

    def spares(self, process: Process, now_s: float) -> bool:
        """Whether it is such a client and has time left. The first question asks it."""
        if (key := (process.pid, process.create_time)) not in self._asked:
            if read_name(process.pid) not in CLIENTS:
                return False
            self._asked[key] = now_s
            send_signal(process, signal.SIGTERM)
        return now_s < self._asked[key] + GRACE_S


def end_clients(find: Callable[[], Sequence[Process]]) -> tuple[Process, ...]:
    """Ask the clients among what `find` finds to end what they started, and wait for them; those of them that have ended by
    themselves, empty where one has not."""
    clients = tuple(process for process in find() if read_name(process.pid) in CLIENTS)
    for process in clients:
        send_signal(process, signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    ended = [wait_gone(process.pid, process.create_time, deadline_s - time.monotonic()) for process in clients]
    return clients if all(ended) else ()
