"""A helper program at arm's length: it is started, its lines are read, it is killed, and none of that ever waits for it.

It runs in a session of its own, so that a Ctrl-C meant for Sentinel does not reach it, and it may notice by its standard input
that Sentinel is gone. A process that the kernel holds (state D) cannot be killed: it is asked to end and left alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

READ_BYTES = 1 << 16
READS_PER_POLL = 16
LINE_BYTES_MAX = 1 << 20


class HelperProcess:
    """A started helper. Raises OSError when it cannot be started."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            list(argv), env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._rest = b""
        self.is_silent = False  # it has closed its standard output: nothing more will come

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Whether the process has ended (and is thereby waited for)."""
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` has it; None while it runs."""
        return self._process.poll()

    def finish(self, wait_s: float) -> bool:
        """Close its standard input, by which it notices that it shall end, and wait so long; whether it has ended."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        return self.is_over

    def read_lines(self) -> list[bytes]:
        """The whole lines written since the last call, a bounded number of bytes. Never waits, never raises."""
        lines: list[bytes] = []
        for _ in range(READS_PER_POLL):
            try:
                block = os.read(self._out, READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                block = b""
            if not block:
                self.is_silent = True
                break
            *whole, self._rest = (self._rest + block).split(b"\n")
            lines += whole
            if len(self._rest) > LINE_BYTES_MAX:
                self._rest = b""
        return lines

    def kill(self) -> None:
        """SIGKILL, without waiting for what comes of it."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it and give back what it held. A second call does nothing."""
        self.kill()
        self.is_silent = True
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.poll()
