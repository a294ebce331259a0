"""The keeper of the next attempt, started ahead, with ranks in reserve or without; docs/design/warm.md.

    python -m sentinel.launcher.reserve_keeper SOCKET

The supervisor's end of the socket says, a JSON line each: first `make` (the command, what to import) where there are to be ranks
in reserve, and at a launch `keep` (the attempt). This end says `standing` while the ranks come up and, asked to keep, with which
code that went (as a keeper's starter exits). The end of the socket ends it and its ranks, until it keeps.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

from sentinel.client.closed_files import open_closed
from sentinel.client.strict_json import dumps, loads
from sentinel.launcher.direct_start import start_ranks
from sentinel.launcher.keeper import keep
from sentinel.launcher.keeper_start import NotStartable, Started, complain, start_command
from sentinel.launcher.warm_command import NotWarm, read_command
from sentinel.launcher.warm_ranks import WarmRanks
from sentinel.run_files.attempt_files import AttemptFiles

LINE_MAX = 1 << 20


class Supervisor:
    """Its end of the socket."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self._buffer = b""

    def hear(self) -> dict[str, Any]:
        """The next line. Ends this process where there is none any more."""
        while b"\n" not in self._buffer:
            data = self.line.recv(LINE_MAX)
            if not data or len(self._buffer) > LINE_MAX:
                os._exit(0)
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = loads(line)
        return message

    def say(self, **words: object) -> None:
        with contextlib.suppress(OSError):  # it is gone: the next read says so
            self.line.sendall(dumps(words).encode() + b"\n")


def main() -> int:
    supervisor = Supervisor(socket.socket(fileno=int(sys.argv[1])))
    os.set_inheritable(supervisor.line.fileno(), False)
    if os.fork() != 0:
        os._exit(0)  # whoever started it has no child to wait for
    os.setsid()
    order = supervisor.hear()
    if "make" not in order:
        return _keep(supervisor, None, order["keep"])
    make = order["make"]
    try:
        command = read_command(make["argv"], make["cwd"])
        warm = WarmRanks(command, make["cwd"], tuple(make["modules"]), Path(make["log"]))
        order = _wait_for_turn(supervisor, warm)
    except (NotWarm, OSError) as error:
        supervisor.say(gone=str(error))
        return 0
    return _keep(supervisor, warm, order)


def _wait_for_turn(supervisor: Supervisor, warm: WarmRanks) -> dict[str, Any]:
    """Bring the ranks up and wait; what the supervisor asks for at last. Raises NotWarm, OSError: the ranks are gone then."""
    try:
        while True:
            warm.start_next()
            looking = select.poll()
            by_handle = {rank.line.fileno(): rank for rank in warm.ranks}
            for handle in (supervisor.line.fileno(), *by_handle):
                looking.register(handle, select.POLLIN)
            ready = [handle for handle, _ in looking.poll()]
            for handle in ready:
                if handle in by_handle:
                    warm.listen(by_handle[handle])
            if any(handle in by_handle for handle in ready):
                ranks = sum(rank.is_ready for rank in warm.ranks)
                supervisor.say(standing={"ready": ranks, "ranks": warm.count, "bytes": warm.memory_bytes()})
            if supervisor.line.fileno() in ready:
                return dict(supervisor.hear()["keep"])
    except (NotWarm, OSError):
        warm.throw_away()
        raise


def _keep(supervisor: Supervisor, warm: WarmRanks | None, order: dict[str, Any]) -> int:
    """`warm`: None where there are no ranks in reserve."""
    files = AttemptFiles(Path(order["run_dir"]), int(order["attempt"]))
    with contextlib.suppress(OSError):
        log = open_closed(files.logs / "keeper.err", os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 2)
        os.close(log)
    cold = ""

    def start(of: AttemptFiles) -> Started | NotStartable:
        nonlocal cold
        if warm is not None:
            try:
                return warm.hand_over(of)
            except (NotWarm, OSError) as error:
                cold = str(error)
                complain(f"attempt {of.attempt} is started cold: {cold}")
                warm.throw_away()
        return start_ranks(of) if order["direct"] else start_command(of)

    def say(code: int) -> None:
        supervisor.say(code=code, cold=cold)
        supervisor.line.close()

    code = keep(files, order["grace_s"], say, start)
    if warm is not None:
        warm.throw_away()  # where another had the attempt
    return code


if __name__ == "__main__":
    sys.exit(main())
