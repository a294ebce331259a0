"""A port for the store at which the ranks of one attempt meet, where no torchrun gives them one."""

from __future__ import annotations

import contextlib
import errno
import random
import socket

PORTS = range(15_000, 30_000)  # below those that Linux gives to connections (ip_local_port_range): none takes it meanwhile
PORT_TRIES = 200


def find_port() -> int:
    """One that nobody listens on just now. Raises OSError."""
    for _ in range(PORT_TRIES):
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                asked.bind(("", port))
                return port
    raise OSError(errno.EADDRINUSE, f"no free port from {PORTS.start} to {PORTS.stop} in {PORT_TRIES} tries")
