"""How a rank of an attached run leaves: SIGTERM asks it to, and its exit record says why it did.

The record is written when the interpreter ends, so that a program needs no line for it: 0 where the loop came to its end, 6 where
it was asked to stop, 1 for an error that nobody caught, and the error's own code for one of this package. Where the program
leaves in the middle by `sys.exit`, nothing is recorded: the status of the process says more than we know.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sentinel.client.session import Session
from sentinel.client.torch.tuning import AttachError

FINISHED, CRASHED, STOPPED, INTERRUPTED = 0, 1, 6, 130


class Leaving:
    """Of one rank. `on_way_out(is_failure)` is called once, before the record is written, and never for a forked child."""

    def __init__(self, session: Session | None, on_way_out: Callable[[bool], None]) -> None:
        self.asked = False  # by SIGTERM
        self.code: int | None = None  # how the loop ended
        self._session = session
        self._on_way_out = on_way_out
        self._pid = os.getpid()
        self._is_over = False
        self._error: BaseException | None = None
        self._hook = sys.excepthook
        sys.excepthook = self._except
        atexit.register(self._at_exit)
        if session is not None:
            self._take_sigterm()

    def _take_sigterm(self) -> None:
        """A program that has a handler of its own keeps it. A forked child (a worker of a DataLoader) gets the default back: it
        is ended by SIGTERM."""
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        signal.signal(signal.SIGTERM, self._on_sigterm)
        own = weakref.ref(self)

        def reset() -> None:
            here = own()
            if here is not None and signal.getsignal(signal.SIGTERM) == here._on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

        os.register_at_fork(after_in_child=reset)

    def _on_sigterm(self, *_: object) -> None:
        self.asked = True

    def _except(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        if os.getpid() == self._pid:
            self._error = error
            self.leave()
        return self._hook(kind, error, trace)

    def failed(self, error: BaseException) -> None:
        """An error leaves the loop; whoever catches it further out has its own idea of what it means."""
        self._error = error

    def _at_exit(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Write what is still to be written. Only once, and only in the process that was attached."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._except:
            sys.excepthook = self._hook
        error = self._error
        with contextlib.suppress(Exception):
            self._on_way_out(error is not None)
        if self._session is None:
            return
        code = self.code
        if isinstance(error, SystemExit):
            return
        if error is not None:
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else CRASHED
            code = error.code if isinstance(error, AttachError) else code
        if code is not None:
            with contextlib.suppress(OSError):
                self._session.record_exit(code, error)
