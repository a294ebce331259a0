"""Tells Sentinel where the threads of a rank that hangs stand.

On a signal, Python's `faulthandler` writes the stack of every thread into the rank's file. It does so in the signal handler
itself, in C, without the interpreter's lock: a rank that waits in a collective for ever, or that holds the lock for ever, answers
as well. A rank that is stopped or blocked in the kernel does not answer.

No signal reaches a rank on another machine. So a rank that has peers also writes its stacks by itself, once in each silence, and
asks its own flight recorder for a dump (`StackWatch`). Each heartbeat says after how many seconds it would: a rank that has
written nothing long after that is stopped, gone, or holds the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import open_closed
from sentinel.client.flight_pipe import PIPE_VARIABLES, ask_for_dump
from sentinel.client.run_layout import flight_recorder_pipe_prefix, stack_path

# A real-time signal: trainers and schedulers use SIGUSR1 and SIGUSR2 for requests of their own.
STACK_SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else 0


def offer_stacks(path: Path) -> int | None:
    """Register the handler; the signal's number. None where the signal is taken already, or there is none on this system.

    The file stays open for the life of the process. Raises OSError where it cannot be made.
    """
    if not STACK_SIGNAL or not hasattr(faulthandler, "register") or signal.getsignal(STACK_SIGNAL) is not signal.SIG_DFL:
        return None
    ensure_directory(path.parent)
    handle = open_closed(path, os.O_WRONLY | os.O_APPEND)
    faulthandler.register(STACK_SIGNAL, file=handle, all_threads=True, chain=False)
    return STACK_SIGNAL


def is_still_offered() -> bool:
    """Whether the program has set no handler of its own for the signal since: what that would do is not for Sentinel to ask for.
    `faulthandler` registers below Python, which goes on to see the default."""
    return signal.getsignal(STACK_SIGNAL) is signal.SIG_DFL


STACKS_AFTER_S = 5.0  # a sixth of the shortest silence that the policy `default` calls a hang
LOOK_EVERY_S = 1.0
LOOKS_KEPT = 20  # of each phase: one long save twenty saves ago says nothing of the next
FILE_BYTES_MAX = 16 * 1024 * 1024  # written alone: no program with strange pauses fills a disk


class StackWatch:
    """When a rank whose heartbeat stays the same writes its stacks: once in a silence, after five seconds, or after twice the
    longest of the last silences of that phase which ended. A phase that takes a minute is no reason to write at each step."""

    def __init__(self) -> None:
        self._lasted_s: dict[str, deque[float]] = {}
        self._beat = ("", 0.0)
        self._silent_s = 0.0
        self._is_written = False

    def after_s(self, phase: str) -> float:
        """Seconds of silence after a heartbeat of this phase."""
        return max(STACKS_AFTER_S, 2.0 * max(self._lasted_s.get(phase, ()), default=0.0))

    def is_due(self, now_s: float, beat: tuple[str, float]) -> bool:
        """Whether to write now; True once in a silence. `beat`: the phase of the last heartbeat, and when it was written."""
        if beat != self._beat:
            if self._beat[0]:
                self._lasted_s.setdefault(self._beat[0], deque(maxlen=LOOKS_KEPT)).append(self._silent_s)
            self._beat, self._is_written = beat, False
        self._silent_s = now_s - beat[1]
        if self._is_written or not beat[0] or self._silent_s < self.after_s(beat[0]):
            return False
        self._is_written = True
        return True


class OwnStacks:
    """What one rank offers. `last_beat`: the phase of its last heartbeat, and when it was written, by the monotonic clock."""

    def __init__(self, run_dir: Path, attempt: int, rank: int, last_beat: Callable[[], tuple[str, float]]) -> None:
        self._path = stack_path(run_dir, attempt, rank)
        self._run_dir, self._attempt, self._rank = run_dir, attempt, rank
        self._last_beat = last_beat
        self._signal: int | None = None
        self._watch: StackWatch | None = None

    def offer(self) -> None:
        """With the first heartbeat. What cannot be offered is left out: a hang is then judged without it."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            self._signal = offer_stacks(self._path)
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            if has_peers(os.environ):
                ensure_directory(self._path.parent)
                handle = open_closed(self._path, os.O_WRONLY | os.O_APPEND)
                watch = StackWatch()
                threading.Thread(target=self._write_alone, args=(watch, handle), name="sentinel-stacks", daemon=True).start()
                self._watch = watch

    def fields(self, phase: str) -> dict[str, Any]:
        """What a heartbeat of this phase says of it."""
        fields: dict[str, Any] = {}
        if self._signal is not None and is_still_offered():
            fields["stack_signal"] = self._signal
        if self._watch is not None:
            fields["stack_after_s"] = round(self._watch.after_s(phase), 1)
        return fields

    def _write_alone(self, watch: StackWatch, handle: int) -> None:
        """A thread of its own. It needs the interpreter's lock, so that a rank that never lets go of it writes nothing."""
        while True:
            time.sleep(LOOK_EVERY_S)
            with contextlib.suppress(OSError, ValueError):
                if watch.is_due(time.monotonic(), self._last_beat()) and os.fstat(handle).st_size < FILE_BYTES_MAX:
                    faulthandler.dump_traceback(file=handle, all_threads=True)
                    own = str(flight_recorder_pipe_prefix(self._run_dir, self._attempt))
                    for prefix in {own, *filter(None, map(os.environ.get, PIPE_VARIABLES))}:
                        ask_for_dump(prefix, self._rank)


def has_peers(environ: Mapping[str, str]) -> bool:
    """Whether more than one rank trains, as far as the launcher says: one alone has nobody to be compared with."""
    return environ.get("WORLD_SIZE", "").isdecimal() and int(environ["WORLD_SIZE"]) > 1
