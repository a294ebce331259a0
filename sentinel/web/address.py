"""`--listen [HOST:]PORT|off`: parses the address and binds it."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from dataclasses import dataclass

from sentinel.errors import UsageError

OFF = "off"
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 9464
BACKLOG = 64
_PATTERN = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:\[\]]+):)?(?P<port>[0-9]{1,5})")


class AddressTaken(UsageError):
    """Another program listens there, usually another run."""


@dataclass(frozen=True, slots=True)
class Address:
    """`host` as it was written, without brackets. Port 0: any that is free."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str) -> Address | None:
    """None: off. Raises UsageError."""
    if text.strip().lower() == OFF:
        return None
    match = _PATTERN.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise UsageError(f"--listen {text}: is no address; write PORT, HOST:PORT or off, as in 9464, [::1]:9464")
    return Address((match["host"] or DEFAULT_HOST).strip("[]"), int(match["port"]))


def bind(address: Address) -> socket.socket:
    """Raises AddressTaken, or UsageError for any other reason."""
    place = f"--listen {address}"
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name, such as a..b
        why = error.strerror if isinstance(error, OSError) else "no name is written so"
        raise UsageError(f"{place}: {address.host} is no address of this machine ({why})") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressTaken(f"{place}: another program listens there already; choose another port, or 0 for any") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise UsageError(f"{place}: this user may not listen there; choose a port above 1023") from None
        raise UsageError(f"{place}: cannot be listened on: {os.strerror(error.errno or 0)}") from None
    return listener


def is_loopback(listener: socket.socket) -> bool:
    """Only programs on this machine reach it."""
    host = str(listener.getsockname()[0]).partition("%")[0]
    return ipaddress.ip_address(host).is_loopback
