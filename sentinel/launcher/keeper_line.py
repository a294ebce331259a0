"""A keeper that was started before its attempt, as the supervisor holds it: its socket, which is its life until it keeps.

Both kinds run `reserve_keeper`: one has ranks in reserve (`reserve`), the other has none (`ready_keeper`). Handed an attempt,
each is a keeper like any other, and answers with the code that a keeper's starter exits with.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sentinel.client.strict_json import dumps, loads
from sentinel.launcher.reserve_start import StartThread, start_apart
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles

ANSWER_S = 10.0  # as long as a cold keeper is waited for
LINE_MAX = 1 << 16


@dataclass(slots=True)
class KeeperLine:
    """Its socket, which never blocks until an attempt is handed over."""

    line: socket.socket
    partial_line: bytes = b""

    def lines(self) -> list[dict[str, Any]] | None:
        """What it has said by now, as far as it is whole; None at its end. Raises OSError; ValueError for what is no message."""
        data = self.line.recv(LINE_MAX)
        *whole, self.partial_line = (self.partial_line + data).split(b"\n")
        messages = [dict(loads(line)) for line in whole]
        return messages if data or messages else None

    def hand(self, files: AttemptFiles, grace_s: float, direct: bool) -> Mapping[str, Any]:
        """Give it the attempt, whose spec.json is written, and wait for its word: `code` and why the ranks were started cold, or
        `gone`. Empty where it did not answer. `grace_s`, `direct`: as LocalLauncher has them."""
        order = {"run_dir": str(files.run_dir), "attempt": files.attempt, "grace_s": grace_s, "direct": direct}
        with suppress(OSError, ValueError), self.line:
            self.line.settimeout(ANSWER_S)
            self.line.sendall(dumps({"keep": order}).encode() + b"\n")
            while (messages := self.lines()) is not None:
                for one in messages:
                    if "code" in one or "gone" in one:
                        return one
        return {}


def start_keeper_ahead(withheld: frozenset[str], start_thread: StartThread | None) -> socket.socket:
    """Start one and return its socket. `withheld`: variables that it does not inherit. `start_thread`: as `start_apart`. Raises
    OSError."""
    ours, theirs = socket.socketpair()
    without = withheld | {RUN_DIR_VARIABLE, ATTEMPT_VARIABLE}  # the marks, should we run inside another attempt
    environment = {name: value for name, value in os.environ.items() if name not in without}
    words = [sys.executable, "-P", "-m", "sentinel.launcher.reserve_keeper", str(theirs.fileno())]
    try:
        with theirs:
            start_apart(words, environment, theirs.fileno(), start_thread)
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return ours
