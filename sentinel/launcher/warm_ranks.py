"""The warm ranks of one reserve, as their reserve keeper holds them: started, waited for, handed over or thrown away.

It may import `time`: its deadlines are about real processes.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentinel.client
from sentinel.client.closed_files import closed
from sentinel.client.strict_json import dumps, loads
from sentinel.launcher.keeper_start import NotStartable, Started, open_logs, own_environment, read_order
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.store_port import find_port
from sentinel.launcher.warm_command import NotWarm, WarmCommand, agent_variables, rank_variables, read_command
from sentinel.model.amounts import time_words
from sentinel.run_files.attempt_files import AttemptFiles

PROGRAM = Path(sentinel.client.__file__).with_name("warm_rank.py")
ROOM, ROOM_BYTES = "SENTINEL_WARM_ROOM", 16 * 1024  # where the attempt's variables will stand in a rank's environment
HAND_OVER_S = 3.0  # a rank compares 1,500 files in 10 ms; a machine that swaps is better off with a cold start
LINE_MAX = 1 << 16


@dataclass(slots=True)
class WarmRank:
    process: subprocess.Popen[bytes]
    line: socket.socket
    is_ready: bool = False
    partial_line: bytearray = field(default_factory=bytearray)


class WarmRanks:
    """`modules`: what each of them imports. `log`: for what they say meanwhile."""

    def __init__(self, command: WarmCommand, cwd: str, modules: tuple[str, ...], log: Path) -> None:
        self._command = command
        self._cwd = cwd
        self._modules = modules
        self._log = log
        self._sizes = {} if command.ranks is None else agent_variables(command.ranks, os.environ | dict(command.variables))
        self.ranks: list[WarmRank] = []

    @property
    def count(self) -> int:
        return self._command.ranks or 1

    @property
    def are_ready(self) -> bool:
        return len(self.ranks) == self.count and all(rank.is_ready for rank in self.ranks)

    def start_next(self) -> None:
        """One more, when all before it are ready: imports take a core, and the run that trains needs it. Raises OSError."""
        if len(self.ranks) == self.count or not all(rank.is_ready for rank in self.ranks):
            return
        number = len(self.ranks)
        ours, theirs = socket.socketpair()
        environment = own_environment() | dict(self._command.variables)
        if self._command.ranks is not None:
            environment |= self._sizes | rank_variables(number)
        environment.pop(ROOM, None)
        environment[ROOM] = " " * ROOM_BYTES  # last: nothing behind it moves when it is written over
        words = [self._command.python, *self._command.flags, str(PROGRAM), str(theirs.fileno()), self._command.kind]
        words += [self._command.name, str(os.getpid()), *self._modules]
        with theirs, open(self._log, "ab", opener=closed) as log:
            process = subprocess.Popen(
                words, cwd=self._cwd, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self.ranks.append(WarmRank(process, ours))

    def listen(self, rank: WarmRank) -> None:
        """Take what a rank says before its turn. Raises NotWarm where it is of no use."""
        for message in self._lines(rank):
            if "ready" in message:
                rank.is_ready = True

    def _lines(self, rank: WarmRank) -> list[dict[str, Any]]:
        try:
            data = rank.line.recv(LINE_MAX)
        except OSError as error:
            raise NotWarm(f"a warm rank cannot be heard: {error}") from None
        if not data:
            raise NotWarm(f"a warm rank (pid {rank.process.pid}) ended before its turn")
        rank.partial_line += data
        *lines, rest = bytes(rank.partial_line).split(b"\n")
        rank.partial_line = bytearray(rest[:LINE_MAX])
        try:
            messages = [dict(loads(line)) for line in lines]
        except (ValueError, TypeError):
            raise NotWarm("a warm rank says what nobody understands") from None
        for one in messages:
            if "refused" in one:
                raise NotWarm(str(one["refused"]))
        return messages

    def memory_bytes(self) -> int:
        """What they hold, shared pages by their part (Pss)."""
        return sum(read_pss(rank.process.pid) for rank in self.ranks)

    def hand_over(self, files: AttemptFiles) -> Started:
        """Make them the ranks of this attempt. Raises NotWarm, OSError; none of them has run anything of the trainer then."""
        order = read_order(files)
        if isinstance(order, NotStartable):
            raise NotWarm(order.reason)
        command = read_command(order.argv, order.cwd)
        if command.shape != self._command.shape or os.path.realpath(order.cwd) != os.path.realpath(self._cwd):
            raise NotWarm("the command is another one than that which the reserve was made for")
        if not self.are_ready:
            raise NotWarm("the reserve was not ready yet")
        meeting = {} if command.ranks is None else {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
        words = {"variables": order.variables | meeting, "arguments": list(command.arguments)}
        end_s = time.monotonic() + HAND_OVER_S
        with open_logs(files) as (out, err):
            for rank in self.ranks:
                socket.send_fds(rank.line, [dumps({"orders": True, **words}).encode() + b"\n"], [out.fileno(), err.fileno()])
        for rank in self.ranks:
            self._wait_marked(rank, end_s, files.environment)
        for rank in self.ranks:
            rank.line.sendall(b'{"go":true}\n')
        started = Started(tuple(rank.process for rank in self.ranks), is_agentless=command.ranks is not None)
        for rank in self.ranks:
            rank.line.close()
        self.ranks = []  # they are no reserve any more, and nothing here may end them
        return started

    def _wait_marked(self, rank: WarmRank, end_s: float, marks: Mapping[str, str]) -> None:
        waiting = select.poll()
        waiting.register(rank.line, select.POLLIN)
        while True:
            if not waiting.poll(max(0.0, end_s - time.monotonic()) * 1000):
                raise NotWarm(f"a warm rank (pid {rank.process.pid}) did not answer within {time_words(HAND_OVER_S)}")
            if any("marked" in message for message in self._lines(rank)):
                break
        if not is_marked(rank.process.pid, marks):
            raise NotWarm(f"a warm rank (pid {rank.process.pid}) does not show the attempt's mark")

    def throw_away(self) -> None:
        """Kill and bury them. One that the kernel holds is left to it: it runs nothing of ours any more."""
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                os.killpg(rank.process.pid, signal.SIGKILL)
            rank.line.close()
        for rank in self.ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.process.wait(1.0)
        self.ranks = []


def read_pss(pid: int) -> int:
    """Bytes; 0 where it cannot be read."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"), re.MULTILINE)
        return int(found[1]) * 1024 if found is not None else 0
    return 0
