"""One HTTP request out of the bytes a connection has received: strict and bounded, and without a socket.

Strict, because what two programs read differently is how requests are smuggled past one of them: line ends are CRLF, a header
stands on one line, a body has a Content-Length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 16 << 10
HEADERS_MAX = 64
_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_ONCE = ("host", "content-length", "content-type", "authorization", "origin")  # two of them would contradict each other


class BadRequest(Exception):
    """The bytes are no request that this server takes; the connection ends with this answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`target` is path and query as sent; names of headers are lower case, values latin-1."""

    method: str
    target: str
    is_kept_alive: bool
    headers: Mapping[str, str]
    body: bytes = b""


def take_request(received: bytearray) -> HttpRequest | None:
    """The first request, taken out of `received`; None while it is not whole. Raises BadRequest."""
    end = received.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX + 4)
    if end < 0:
        if len(received) > HEAD_BYTES_MAX:
            raise BadRequest(431, f"the head of a request is at most {HEAD_BYTES_MAX} bytes")
        return None
    line, *rest = bytes(received[:end]).split(b"\r\n")
    method, target, minor = _read_line(line)
    headers = _read_headers(rest)
    length = _read_length(headers)
    whole = end + 4 + length
    if len(received) < whole:
        return None
    body = bytes(received[end + 4 : whole])
    del received[:whole]
    return HttpRequest(method, target, minor == "1" and "close" not in headers.get("connection", "").lower(), headers, body)


def _read_line(line: bytes) -> tuple[str, str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        if re.search(rb" HTTP/\d", line) and not re.search(rb" HTTP/1\.[01]$", line):
            raise BadRequest(505, "this server speaks HTTP/1.0 and HTTP/1.1")
        raise BadRequest(400, "the first line of the request is not METHOD /PATH HTTP/1.1")
    return found[1].decode("ascii"), found[2].decode("ascii"), found[3].decode("ascii")


def _read_headers(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > HEADERS_MAX:
        raise BadRequest(431, f"a request has at most {HEADERS_MAX} headers")
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise BadRequest(400, "a header is not NAME: VALUE on one line")
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1").rstrip(" \t")
        if name in headers and name in _ONCE:
            raise BadRequest(400, f"{name}: stands there twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _read_length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a body is sent whole, with a Content-Length")
    text = headers.get("content-length", "0")
    if re.fullmatch(r"[0-9]{1,12}", text) is None:
        raise BadRequest(400, "content-length: is not a number of bytes")
    if int(text) > BODY_BYTES_MAX:
        raise BadRequest(413, f"a body is at most {BODY_BYTES_MAX} bytes")
    return int(text)
