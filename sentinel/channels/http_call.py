"""One HTTP call with an end: a deadline for all of it, an answer of bounded size, no redirects, certificates checked.

What goes wrong becomes RetryLater (PerhapsDelivered where only the answer is missing) or GiveUp, in words that hold neither the
address behind the host nor a header. A proxy is used as the environment says (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), as with other
programs, but never for this machine itself.

    send(HttpRequest("PagerDuty", "https://events.pagerduty.com/v2/enqueue", body=b"{}"))
"""

from __future__ import annotations

import errno
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from sentinel.channels.contract import AGAIN_S, CALL_S
from sentinel.channels.reach import is_here
from sentinel.clock import SystemClock
from sentinel.errors import GiveUp, PerhapsDelivered, RetryLater
from sentinel.model.amounts import time_words

ANSWER_BYTES_MAX = 1024 * 1024
READ_FOR_WORDS = 65536
WORDS_MAX = 200  # of what a server says about a refusal
RETRY_MAX_S = 300.0  # a server that asks for more is asked again all the same: a page is urgent
BUSY = (408, 425, 429)
PROXY_PORT = 8080
_CLEAN = re.compile(r"[^\x20-\x7e]+")


@dataclass(frozen=True, slots=True, repr=False)
class HttpRequest:
    """`what`: who is called, in words for a person. `url`, `headers` and `body` may hold secrets and are never printed; `scrub`
    takes them out of what the server says, before that is cut: half a key would not be found any more. `remedies`: what a person
    is to check when the call is refused for good, by status."""

    what: str
    url: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    within_s: float = CALL_S
    scrub: Callable[[str], str] = str
    remedies: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A success. `body` is cut at ANSWER_BYTES_MAX."""

    status: int
    body: bytes


def host_of(url: str) -> str:
    """Host and port of an address, for words; empty where it has none."""
    with suppress(ValueError):
        split = urlsplit(url)
        return (split.hostname or "") + (f":{split.port}" if split.port else "")
    return ""


def check_url(url: str) -> str:
    """What is wrong with an address, and what to write; empty where it can be called."""
    try:
        split = urlsplit(url)
        usable = split.scheme in ("http", "https") and split.hostname and (split.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        return "is no address; write http://HOST:PORT/… or https://HOST/…"
    if "@" in split.netloc:
        return "holds a user or a password; a secret has a place of its own"
    return ""


def given_url(value: str, kind: str) -> str:
    """The address in `--page KIND=URL`. Raises ValueError, in words that do not repeat it."""
    if not value:
        raise ValueError(f"says not where; write --page {kind}=URL")
    wrong = check_url(value)
    if wrong:
        raise ValueError(f"its address {wrong}")
    return value


def send(request: HttpRequest) -> HttpResponse:
    """Call, and read the whole answer. Raises RetryLater, GiveUp."""
    wrong = check_url(request.url)
    if wrong:
        raise GiveUp(f"{request.what}: its address {wrong}")
    clock = SystemClock()
    end_s = clock.now_s() + request.within_s
    sent = threading.Event()
    with _in_words(request, sent):
        connection, target = _open(urlsplit(request.url), request.within_s)
        with closing(connection):
            connection.connect()
            with _hung_up_after(connection.sock, end_s - clock.now_s()):
                connection.request(request.method, target, request.body, _headers(request))
                sent.set()
                response = connection.getresponse()
                body = response.read(ANSWER_BYTES_MAX)
    if 200 <= response.status < 300:
        return HttpResponse(response.status, body)
    raise _refusal(request, response, body, clock.wall_s())


def _headers(request: HttpRequest) -> dict[str, str]:
    plain = {"User-Agent": "sentinel", "Accept": "application/json", "Connection": "close"}
    if request.body is not None:
        plain["Content-Type"] = "application/json"
    return {**plain, **request.headers}


def _open(split: SplitResult, within_s: float) -> tuple[http.client.HTTPConnection, str]:
    """A connection to the server or its proxy, not yet made, and what is to be asked for on it."""
    host, path = str(split.hostname), (split.path or "/") + (f"?{split.query}" if split.query else "")
    proxy = _proxy_for(split)
    if split.scheme == "https":
        secure = ssl.create_default_context()
        if proxy is None:
            return http.client.HTTPSConnection(host, split.port, timeout=within_s, context=secure), path
        tunnel = http.client.HTTPSConnection(str(proxy.hostname), proxy.port or PROXY_PORT, timeout=within_s, context=secure)
        tunnel.set_tunnel(host, split.port or 443)
        return tunnel, path
    if proxy is None:
        return http.client.HTTPConnection(host, split.port, timeout=within_s), path
    return http.client.HTTPConnection(str(proxy.hostname), proxy.port or PROXY_PORT, timeout=within_s), split.geturl()


def _proxy_for(split: SplitResult) -> SplitResult | None:
    host = str(split.hostname)
    if is_here(host) or proxy_bypass(split.netloc):
        return None
    named = getproxies().get(split.scheme, "")
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    return proxy if proxy.hostname else None


@contextmanager
def _hung_up_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """A socket's timeout starts anew with each byte; this one does not. Shutting down wakes whoever reads."""
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # a TLS socket's own would change it under its reader

    timer = threading.Timer(max(seconds, 0.0), hang_up)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as error:  # no processes left, which may pass
        raise OSError(errno.EAGAIN, str(error)) from None
    try:
        yield
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError  # the answer ends because it was cut off


@contextmanager
def _in_words(request: HttpRequest, sent: threading.Event) -> Iterator[None]:
    """Of an error only what cannot hold the address or a header is said. `sent`: set once the request has gone out whole."""
    what = request.what
    try:
        yield
    except TimeoutError:
        kind = PerhapsDelivered if sent.is_set() else RetryLater
        raise kind(f"{what}: no answer within {time_words(request.within_s)}", AGAIN_S) from None
    except ssl.SSLCertVerificationError as error:
        raise GiveUp(f"{what}: its certificate is refused: {error.verify_message}; SSL_CERT_FILE names others") from None
    except socket.gaierror as error:
        raise RetryLater(f"{what}: its host name cannot be resolved: {error.strerror}", AGAIN_S) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise GiveUp(f"{what}: the call cannot be written ({type(error).__name__}); look for strange characters") from None
    except (http.client.HTTPException, ssl.SSLError) as error:
        raise RetryLater(f"{what}: its answer is not HTTP ({type(error).__name__})", AGAIN_S) from None
    except OSError as error:
        raise RetryLater(f"{what}: {error.strerror or type(error).__name__}", AGAIN_S) from None


def _refusal(request: HttpRequest, response: http.client.HTTPResponse, body: bytes, wall_s: float) -> RetryLater | GiveUp:
    what, status = request.what, response.status
    text = request.scrub(body[:READ_FOR_WORDS].decode("utf-8", "replace"))
    cleaned = _CLEAN.sub(" ", text).strip()[:WORDS_MAX]
    words = f"{what} answered {status}" + (f": {cleaned}" if cleaned else "")
    if status >= 500 or status in BUSY:
        asked_s = retry_after_s(response.getheader("Retry-After"), wall_s)
        return RetryLater(words, AGAIN_S if asked_s is None else asked_s)
    if 300 <= status < 400:
        return GiveUp(f"{what} answered {status}: it sends elsewhere, and a page follows no one; write the address it leads to")
    remedy = request.remedies.get(status)
    return GiveUp(words if remedy is None else f"{words}; {remedy}")


def retry_after_s(value: str | None, wall_s: float) -> float | None:
    """Seconds that a Retry-After asks for, as a number or as a date, within 1 and RETRY_MAX_S; None where it asks for nothing."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(max(float(text[:9]), 1.0), RETRY_MAX_S)
    try:
        asked_s = parsedate_to_datetime(text).timestamp() - wall_s
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(asked_s, 1.0), RETRY_MAX_S)
