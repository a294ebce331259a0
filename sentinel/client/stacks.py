"""Lets Sentinel ask a rank that hangs where its threads stand.

On the signal, Python's `faulthandler` writes the stack of every thread into the rank's file. It does so in the signal handler
itself, in C, without the interpreter's lock: a rank that waits in a collective for ever, or that holds the lock for ever, answers
as well. A rank that is stopped or blocked in the kernel does not answer.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import open_closed

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
