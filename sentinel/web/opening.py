"""Opens the site of a run, or of many: bound before anything starts, serving while the run lasts."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.web.access import TOKEN_VARIABLE, Access, read_token
from sentinel.web.address import Address, bind, is_loopback, read_address
from sentinel.web.runs import Runs
from sentinel.web.server import Server
from sentinel.web.site import NO_SERVICES, Site, SiteServices


@dataclass(frozen=True, slots=True)
class Listen:
    """The command line's options. `address` None: none was given, and the run goes on without a page if none can be served."""

    address: str | None = None
    token_file: Path | None = None


class OpenSite:
    """Its socket listens from the beginning; it answers between `start` and `close`. Both may be called twice."""

    def __init__(self, listener: socket.socket, token: str, host: str, runs: Runs, services: SiteServices) -> None:
        clock = SystemClock()
        bound = listener.getsockname()
        access = Access(token, is_loopback(listener), (host, str(bound[0])), clock)
        self.url = f"http://{Address(host, int(bound[1]))}/"
        self.link = f"http://{Address(_host_for_links(host), int(bound[1]))}/"  # for pages: it must work from another machine
        self.can_act = access.can_act
        self._runs = runs
        self._server = Server(listener, Site(runs, access, services))
        self._is_started = False

    def start(self) -> None:
        """Serve, and print the address once."""
        if not self._is_started:
            self._is_started = True
            self._runs.start()
            self._server.start()
            how = "" if self.can_act else f" (to look at; with {TOKEN_VARIABLE} set also to act)"
            _print_line(f"page: {self.url}{how}")

    def close(self) -> None:
        self._server.close()
        self._runs.close()


class NoSite:
    """`--listen off`, or the default address is not available. `why` is printed once, when the run begins; empty: nothing is."""

    link = ""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def start(self) -> None:
        if self._why:
            _print_line(self._why)
        self._why = ""

    def close(self) -> None: ...


def open_for_run(listen: Listen | None, run_dir: Path, services: SiteServices = NO_SERVICES) -> OpenSite | NoSite:
    """The site of the run and of those in the same directory. `listen` None: off.

    Raises:
        UsageError: the address that `--listen` names is not available, or is open to a network and has no token.
    """
    token = read_token(listen.token_file if listen else None, os.environ)
    address = None if listen is None else Address() if listen.address is None else read_address(listen.address)
    if listen is None or address is None:
        return NoSite()
    try:
        return open_site(address, token, Runs([run_dir.absolute().parent], own=run_dir), services)
    except UsageError as error:
        if listen.address is not None:
            raise
        return NoSite(f"no page in the browser for this run: {error}")


def open_site(address: Address, token: str, runs: Runs, services: SiteServices = NO_SERVICES) -> OpenSite:
    """Raises UsageError: the address is not available, or other machines reach it and there is no token."""
    listener = bind(address)
    if not is_loopback(listener) and not token:
        listener.close()
        raise UsageError(
            f"--listen {address}: other machines reach it, so it needs a token: set {TOKEN_VARIABLE} or give --token-file; "
            "or listen on 127.0.0.1 and come by ssh -L"
        )
    return OpenSite(listener, token, address.host, runs, services)


def _host_for_links(host: str) -> str:
    """0.0.0.0 and :: listen on every address and are no host to link to."""
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host


def check_places(places: Sequence[Path]) -> None:
    """Raises UsageError: one of them is not a readable directory."""
    for place in places:
        try:
            os.scandir(place).close()
            continue
        except FileNotFoundError:
            what = "there is no such directory"
        except NotADirectoryError:
            what = "is a file"
        except OSError as error:
            raise UsageError(f"{place}: cannot be read: {error.strerror}; check the rights of this user") from None
        raise UsageError(f"{place}: {what}; name a run directory, or a directory of them, such as runs")


def _print_line(line: str) -> None:
    with suppress(OSError, ValueError):
        print(f"{line}\n", end="", file=sys.stderr, flush=True)  # in one write: the narrator may share the file
