"""Reports Sentinel's state to systemd (sd_notify): ready, a turn completed, waiting, leaving. Silent where nobody listens.

A watchdog is to be fed by the loop it watches: `alive` is sent after a turn and by nothing else, so a loop that hangs is
restarted although other threads go on. A datagram that cannot be sent at once is lost, and the next one says as much.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from sentinel.engine import Engine

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLES = ("WATCHDOG_USEC", "WATCHDOG_PID")
EVERY_S = 1.0
STATUS_CHARS_MAX = 200


class Notifier:
    """`address`: a socket's path, or @NAME in the abstract namespace; empty: nobody listens. `turned`: told of every sign of life
    before its bounds, whoever listens."""

    def __init__(self, address: str = "", turned: Callable[[], None] = lambda: None) -> None:
        self._turned = turned
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._sent_s = float("-inf")

    @classmethod
    def from_environment(cls, turned: Callable[[], None] = lambda: None) -> Notifier:
        """Takes the variables out of the environment: what sentinel starts must not speak for it."""
        for name in WATCHDOG_VARIABLES:
            os.environ.pop(name, None)
        return cls(os.environ.pop(SOCKET_VARIABLE, ""), turned)

    @classmethod
    def of_environment(cls) -> Notifier:
        """The same for whoever starts nothing, and leaves the variables to who comes after it in this process."""
        return cls(os.environ.get(SOCKET_VARIABLE, ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._send("STOPPING=1")

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self, now_s: float, status: Callable[[], str]) -> None:
        """A turn was completed. Sent at most every `EVERY_S`."""
        self._turned()
        if self._address and now_s - self._sent_s >= EVERY_S:
            self._sent_s = now_s
            self._send("WATCHDOG=1", status())

    def waiting(self, status: str) -> None:
        """There is no loop just now, and that is meant."""
        self._turned()
        self._send("WATCHDOG=1", status)

    def after_turns(self, before_turn: Callable[[float], None], status: Callable[[], str]) -> Callable[[float], None]:
        """`before_turn`, and the word that sentinel lives: from its second call on, a turn has been completed before it."""
        calls = 0

        def kept(now_s: float) -> None:
            nonlocal calls
            before_turn(now_s)
            calls += 1
            if calls > 1:
                self.alive(now_s, status)

        return kept

    def _send(self, word: str, status: str = "") -> None:
        if not self._address:
            return
        line = "".join(c for c in status if c.isprintable())[:STATUS_CHARS_MAX]
        text = f"{word}\nSTATUS={line}" if line else word
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto(text.encode(), self._address)


def in_words(engine: Engine) -> str:
    """One line, for `systemctl status`."""
    state, attempt = engine.state, engine.state.attempt
    where = f", attempt {attempt.attempt}, step {engine.detectors.newest_step}" if attempt is not None else ""
    return f"{state.run_id}: {state.label}{where}, {len(state.open_incidents)} open incidents"
