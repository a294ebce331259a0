"""A whole terminal lent to one view that is looked at: pictures on the alternate screen, keys as they are pressed.

    with Screen(console) as screen:
        while screen.wait(0.25) != "q":
            screen.show(picture)

However it ends, the terminal is as it was before: its own screen, its cursor, its way of reading lines. SIGINT and SIGTERM are
noted, and answered where the screen waits for keys: an exception that may come anywhere can end half a picture, or be
swallowed where Python ignores exceptions (a finalizer), and then nobody leaves. The second one is such an exception, for whoever
hangs elsewhere.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sentinel.signals import INTERRUPTS
from sentinel.terminal.panel import draw, draw_plain
from sentinel.terminal.picture import Picture

FOOT_ROWS = 1
FOOT, FOOT_ENDED = " q leaves; the run goes on", " q leaves; the run has ended"
KEY_BYTES = 32
PLAIN_WIDTH = 400
LEAVING = "q"  # what a signal that ends is told as
ENDING = (signal.SIGINT, signal.SIGTERM)


class Screen:
    """Of a console that is a terminal. Raises OSError when the terminal goes away."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False)
        self._stack = ExitStack()

    def __enter__(self) -> Screen:
        signals = self._stack.enter_context(_Signals())
        self._keys = _Keys(signals)
        self._stack.callback(self._keys.close)
        self._stack.enter_context(self._live)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def show(self, picture: Picture) -> None:
        foot = FOOT_ENDED if picture.state.ended else FOOT
        self._live.update(Group(draw(picture, FOOT_ROWS), Text(foot, "dim", no_wrap=True)), refresh=True)

    def wait(self, timeout_s: float) -> str:
        """The key that was pressed meanwhile, at once; empty when none was; `q` when a signal asked to leave."""
        return self._keys.wait(timeout_s)


class _Signals:
    """SIGINT and SIGTERM as bytes that can be waited for beside keys. Raises ValueError outside the main thread."""

    def __enter__(self) -> _Signals:
        self.came, self._noting = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = {number: signal.signal(number, self._note) for number in ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.came)
        os.close(self._noting)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        INTERRUPTS.came |= number == signal.SIGINT
        for each in ENDING:
            signal.signal(each, signal.default_int_handler)
        os.write(self._noting, b".")


class _Keys:
    """Standard input without waiting for a whole line. What is no terminal has no keys."""

    def __init__(self, signals: _Signals) -> None:
        self._signals = signals
        self._handle: int | None = None
        self._before: list[Any] = []
        try:
            handle = sys.stdin.fileno()
            self._before = termios.tcgetattr(handle)
            tty.setcbreak(handle)
            self._handle = handle
        except (OSError, ValueError, termios.error):
            return

    def wait(self, timeout_s: float) -> str:
        handles = [] if self._handle is None else [self._handle]
        ready, _, _ = select.select([*handles, self._signals.came], [], [], timeout_s)
        if self._signals.came in ready:
            return LEAVING
        if not ready or self._handle is None:
            return ""
        pressed = os.read(self._handle, KEY_BYTES)
        if not pressed:
            self._handle = None  # nobody is there to press any
        return pressed[:1].decode("ascii", "replace")

    def close(self) -> None:
        if self._before:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)


def open_console() -> Console | None:
    """The terminal; None where standard output is none, or one that cannot move its cursor. Its size is its own: COLUMNS, where a
    shell exports it, knows of no resize."""
    console = Console(_environ={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")})
    return console if console.is_interactive else None


def shows_blocks(console: Console) -> bool:
    return (console.encoding or "").lower().startswith("utf")


def print_plain(picture: Picture) -> None:
    """Once, as lines."""
    Console(width=PLAIN_WIDTH, color_system=None, soft_wrap=True, legacy_windows=False).print(draw_plain(picture), soft_wrap=True)
