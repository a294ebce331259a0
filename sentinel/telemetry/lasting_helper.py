"""`sentinel …` in a process of its own for as long as a run is watched: its lines are heard, and one that died is started again.

A network that hangs hangs that process, and nobody else. It notices that the supervisor is gone by its standard input.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from sentinel.model.amounts import time_words
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE
from sentinel.telemetry.helper_process import HelperProcess

AGAIN_S = 60.0


class LastingHelper:
    """`words`: the command line behind `sentinel`. `name`: for people."""

    def __init__(self, name: str, words: Sequence[str], line_chars_max: int = 500) -> None:
        self.name = name
        self._argv = (sys.executable, "-P", "-m", "sentinel", *words)  # -P: not a folder `sentinel` of where it is started
        self._environment = {name: os.environ[name] for name in os.environ if name not in (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)}
        self._line_chars_max = line_chars_max
        self._process: HelperProcess | None = None
        self._again_s = float("-inf")
        self._is_done = False

    def turn(self, now_s: float) -> list[str]:
        """Start it where it is not running; what it has said since the last turn."""
        if self._is_done or (self._process is None and now_s < self._again_s):
            return []
        if self._process is None:
            try:
                self._process = HelperProcess(self._argv, self._environment)
            except OSError as error:
                self._again_s = now_s + AGAIN_S
                return [f"{self.name}: its process cannot be started: {error.strerror}; tried again in {time_words(AGAIN_S)}"]
        lines = self._read_lines(self._process)
        if self._process.is_over:
            lines += self._read_lines(self._process)
            code = self._process.exit_code
            self._process.close()
            self._process, self._again_s, self._is_done = None, now_s + AGAIN_S, code == 0
            if code != 0:
                lines.append(f"{self.name}: its process ended with {code}; started again in {time_words(AGAIN_S)}")
        return lines

    def _read_lines(self, process: HelperProcess) -> list[str]:
        return [line.decode(errors="replace")[: self._line_chars_max] for line in process.read_lines() if line.strip()]

    def finish(self, wait_s: float) -> bool:
        """Let it do what is left; whether it has, or had already."""
        if self._process is None:
            return self._is_done
        is_complete = self._process.finish(wait_s) and self._process.exit_code == 0
        if self._process.is_over:
            self._process.close()
        return is_complete  # one that is late goes on alone: its standard input is closed


def stop_at_eof(stop: threading.Event) -> None:
    """For the helper: set the event when nobody holds its standard input any more."""

    def wait() -> None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        stop.set()

    threading.Thread(target=wait, name="sentinel-eof", daemon=True).start()
