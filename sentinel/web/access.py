"""Who may read and who may act: the token, the Host and Origin of a request, and what becomes of wrong tokens.

    a loopback address   anybody on this machine reads; who acts shows the token
    any other address    the token for everything but the page's own files, which hold nothing of the run

The token travels in the Authorization header only, never as a cookie: a page of another site cannot make a browser send it.
"""

from __future__ import annotations

import hmac
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from sentinel.clock import Clock
from sentinel.errors import UsageError
from sentinel.web.answers import RefusedRequest, Request

TOKEN_VARIABLE = "SENTINEL_TOKEN"
TOKEN_CHARS_MIN, TOKEN_CHARS_MAX = 16, 512
WRONG_MAX = 20  # wrong tokens of one address within WRONG_S; a further one is told to wait
WRONG_S = 60.0
ADDRESSES_KEPT = 256
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def read_token(file: Path | None, environ: MutableMapping[str, str]) -> str:
    """The token, empty where none is set. Taken out of the environment: what is launched from here has no need of it.

    Raises UsageError for a file that others can read, and for what is no token.
    """
    given = environ.pop(TOKEN_VARIABLE, "")
    if file is None:
        return _checked(given, TOKEN_VARIABLE) if given else ""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            content = os.read(handle, TOKEN_CHARS_MAX + 2)
        finally:
            os.close(handle)
    except OSError as error:
        raise UsageError(f"--token-file {file}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        raise UsageError(f"--token-file {file}: others than its owner can read it; make it yours alone: chmod 600 {file}")
    return _checked(content.decode("latin-1").strip(), f"--token-file {file}")


def _checked(token: str, place: str) -> str:
    is_plain = token.isascii() and token.isprintable() and " " not in token
    if not is_plain or not TOKEN_CHARS_MIN <= len(token) <= TOKEN_CHARS_MAX:
        raise UsageError(
            f"{place}: is no token: {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} letters and digits without spaces; "
            "`openssl rand -hex 24` makes one"
        )
    return token


class Access:
    """`names`: the hosts this server answers to; empty: any (then nobody reads without the token)."""

    def __init__(self, token: str, is_loopback: bool, names: tuple[str, ...], clock: Clock) -> None:
        self._token = token.encode()
        self._reading_is_open = is_loopback
        self._names = frozenset(name.lower() for name in (*LOOPBACK_NAMES, *names)) if is_loopback else frozenset()
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # address → how many, since when

    @property
    def can_act(self) -> bool:
        return bool(self._token)

    def check_host(self, request: Request) -> None:
        """A name that somebody else's DNS made to mean this machine is not this server's: a page from there reads nothing."""
        host = request.header("Host")
        if self._names and ("@" in host or host_of(f"//{host}") not in self._names):
            raise RefusedRequest(403, "this server does not answer to that name; use the address that `--listen` was given")

    def check_reading(self, request: Request) -> None:
        if not self._reading_is_open:
            self._check_token(request)

    def check_acting(self, request: Request) -> None:
        """From this site's own page or from a program, with the token, as JSON."""
        origin, site = request.header("Origin"), request.header("Sec-Fetch-Site")
        is_own = not origin or origin.lower().partition("://")[2] == request.header("Host").lower()
        if not is_own or site not in ("", "same-origin", "none"):
            raise RefusedRequest(403, "a page of another site asked for this; only this server's own page may")
        if not self._token:
            raise RefusedRequest(403, f"this server only shows; start it with {TOKEN_VARIABLE} or --token-file to act from here")
        self._check_token(request)
        if request.headers["CONTENT_TYPE"].partition(";")[0].strip().lower() != "application/json":
            raise RefusedRequest(415, "what is asked is sent as application/json")

    def _check_token(self, request: Request) -> None:
        """The right token first: who shares an address with somebody who guesses (a proxy, a login node) is let in all the same.
        No guess comes nearer by that, for a token has 16 characters at least."""
        peer, now_s = request.peer, self._clock.now_s()
        scheme, _, shown = request.header("Authorization").partition(" ")
        is_bearer = bool(self._token) and scheme.lower() == "bearer"
        if is_bearer and hmac.compare_digest(shown.strip().encode("latin-1", "replace"), self._token):
            return
        if shown and self._is_waiting(peer, now_s):
            raise RefusedRequest(429, f"too many wrong tokens from {peer}; wait a minute", Retry_After=f"{WRONG_S:.0f}")
        if shown:
            self._note_wrong(peer, now_s)
        words = "this token is not the one this server was started with" if shown else "this needs the server's token"
        raise RefusedRequest(401, words, WWW_Authenticate='Bearer realm="sentinel"')

    def _is_waiting(self, peer: str, now_s: float) -> bool:
        with self._lock:
            count, since_s = self._wrong.get(peer, (0, now_s))
        return count >= WRONG_MAX and now_s - since_s < WRONG_S

    def _note_wrong(self, peer: str, now_s: float) -> None:
        with self._lock:
            count, since_s = self._wrong.pop(peer, (0, now_s))
            self._wrong[peer] = (count + 1, since_s) if now_s - since_s < WRONG_S else (1, now_s)
            if len(self._wrong) > ADDRESSES_KEPT:
                self._wrong.popitem(last=False)


def host_of(address: str) -> str:
    """Without port and brackets; empty for what names none."""
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
