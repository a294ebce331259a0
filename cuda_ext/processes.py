"""Runs programs to their end or their deadline, and ends them with everything that they started.

A compiler is a tree of processes. Killing only the first would leave the others running, and its output open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LEFT_OPEN_S = 10.0


@dataclass(frozen=True)
class Completed:
    code: int | None
    """None: it met its deadline."""
    output: str


class Programs:
    """Programs that run beside one another, in threads, and can be ended together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(
        self, command: Sequence[str], limit_s: float, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Completed:
        """Waits for it. Raises OSError where it cannot be started."""
        with self._lock:
            if self._over:
                return Completed(-signal.SIGKILL, "")
            process = subprocess.Popen(
                command, env=environ, cwd=folder, process_group=0, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=limit_s)
            return Completed(process.returncode, output)
        except subprocess.TimeoutExpired:
            end(process)
            return Completed(None, remaining_output(process))
        except BaseException:  # Ctrl-C does not reach a group of its own
            end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)

    def end_all(self) -> None:
        """Ends those that run, and starts no more."""
        with self._lock:
            self._over = True
            for process in self._running:
                end(process)


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def remaining_output(process: subprocess.Popen[str]) -> str:
    """Its output so far. A process that left its group may hold the pipe open: wait LEFT_OPEN_S at most."""
    try:
        return process.communicate(timeout=LEFT_OPEN_S)[0]
    except subprocess.TimeoutExpired as error:
        output = error.output or ""
        return output if isinstance(output, str) else output.decode(errors="replace")
