"""The site of a run that is supervised here, or of runs that are not: opened before anything is started, started with the run,
closed with it."""

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
from sentinel.web.site import NOTHING_GIVEN, Given, Site


@dataclass(frozen=True, slots=True)
class Listen:
    """As a person asked for it. `words` None: they said nothing, and a page that cannot be had is no reason not to train."""

    words: str | None = None
    token_file: Path | None = None


class OpenSite:
    """It listens from the moment it is made, and answers between `start` and `close`. Both may be called twice."""

    def __init__(self, listener: socket.socket, token: str, host: str, runs: Runs, given: Given) -> None:
        clock = SystemClock()
        bound = listener.getsockname()
        access = Access(token, is_loopback(listener), (host, str(bound[0])), clock)
        self.url = f"http://{Address(host, int(bound[1]))}/"
        self.link = f"http://{Address(_name_for_others(host), int(bound[1]))}/"  # as whoever is paged is told it
        self.can_act = access.can_act
        self._runs = runs
        self._server = Server(listener, Site(runs, access, given))
        self._is_started = False

    def start(self) -> None:
        """Say the address, once."""
        if not self._is_started:
            self._is_started = True
            self._runs.start()
            self._server.start()
            how = "" if self.can_act else f" (to look at; with {TOKEN_VARIABLE} set also to act)"
            _say(f"page: {self.url}{how}")

    def close(self) -> None:
        self._server.close()
        self._runs.close()


class NoSite:
    """`--listen off`, or nothing was asked for and it could not be had: `why` is said once, when the run begins."""

    link = ""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def start(self) -> None:
        if self._why:
            _say(self._why)
        self._why = ""

    def close(self) -> None: ...


def open_for_run(listen: Listen | None, run_dir: Path, given: Given = NOTHING_GIVEN) -> OpenSite | NoSite:
    """Of the run and those beside it. `listen` None: off. Raises UsageError for what was asked for and cannot be had."""
    token = read_token(listen.token_file if listen else None, os.environ)
    address = None if listen is None else Address() if listen.words is None else read_address(listen.words)
    if listen is None or address is None:
        return NoSite()
    try:
        return open_site(address, token, Runs([run_dir.absolute().parent], own=run_dir), given)
    except UsageError as error:
        if listen.words is not None:
            raise
        return NoSite(f"no page in the browser for this run: {error}")


def open_site(address: Address, token: str, runs: Runs, given: Given = NOTHING_GIVEN) -> OpenSite:
    """Raises UsageError: the address cannot be had, or would show the runs to a network without asking for a token."""
    listener = bind(address)
    if not is_loopback(listener) and not token:
        listener.close()
        raise UsageError(
            f"--listen {address}: other machines reach it, so it needs a token: set {TOKEN_VARIABLE} or give --token-file; "
            "or listen on 127.0.0.1 and come by ssh -L"
        )
    return OpenSite(listener, token, address.host, runs, given)


def _name_for_others(host: str) -> str:
    """`--listen 0.0.0.0:9464` is every address of this machine and the name of none."""
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host


def check_places(places: Sequence[Path]) -> None:
    """Raises UsageError for what can hold no run."""
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


def _say(words: str) -> None:
    with suppress(OSError, ValueError):
        print(words, file=sys.stderr, flush=True)
