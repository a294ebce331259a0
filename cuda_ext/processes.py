"""Starts programs and ends them: to their end or their deadline, with everything that they start.

A compiler is a tree of programs. Whoever ended the first of them alone would leave the others working, and its output open.
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
class Ended:
    code: int | None
    """None: it met its deadline."""
    said: str


class Programs:
    """Programs that run beside one another, in threads, and can be ended together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(
        self, words: Sequence[str], limit_s: float, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Ended:
        """Waits for it. Raises OSError where it cannot be started."""
        with self._lock:
            if self._over:
                return Ended(-signal.SIGKILL, "")
            process = subprocess.Popen(
                words, env=environ, cwd=folder, process_group=0, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._running.add(process)
        try:
            said, _ = process.communicate(timeout=limit_s)
            return Ended(process.returncode, said)
        except subprocess.TimeoutExpired:
            end(process)
            return Ended(None, last_words(process))
        except BaseException:  # Ctrl-C does not reach a group of its own
            end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)

    def end_all(self) -> None:
        """Those that run are ended, and none is started any more."""
        with self._lock:
            self._over = True
            for process in self._running:
                end(process)


def end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def last_words(process: subprocess.Popen[str]) -> str:
    """What it had said. What has left its group may hold its output open: that is not waited for without an end."""
    try:
        return process.communicate(timeout=LEFT_OPEN_S)[0]
    except subprocess.TimeoutExpired as error:
        said = error.output or ""
        return said if isinstance(said, str) else said.decode(errors="replace")
