"""What the site is asked, what it answers, and how an answer looks: JSON that any language reads, and headers that keep a
browser from doing what nobody meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from sentinel.client.strict_json import dumps

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
QUERY_FIELDS_MAX = 8
PIECES_DEEP = 3  # curves, of a metric, of an attempt
# No script, style, frame or connection but from this very server; nobody may frame the page, and no form leads anywhere.
PAGE_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:"
)
# A report is one file with its styles inside and no script at all: whatever a log line in it says, nothing of it runs.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'; sandbox"
GUARD = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class Refused(Exception):
    """The answer is no: an HTTP status, and a sentence for a person."""

    def __init__(self, status: int, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.headers = tuple((name.replace("_", "-"), value) for name, value in headers.items())


@dataclass(frozen=True, slots=True)
class Request:
    """`parts`: the decoded segments of the path. `peer`: the client's address."""

    method: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]  # as WSGI names them: HTTP_ORIGIN
    peer: str
    body: bytes = b""

    def header(self, name: str) -> str:
        return self.headers.get(f"HTTP_{name.upper().replace('-', '_')}", "")


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes
    content_type: str = JSON
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    policy: str = PAGE_POLICY
    cache: str = "no-store"

    @property
    def status_line(self) -> str:
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def all_headers(self) -> list[tuple[str, str]]:
        of_body = [("Content-Type", self.content_type), ("Content-Length", str(len(self.body))), ("Cache-Control", self.cache)]
        return [*of_body, ("Content-Security-Policy", self.policy), *GUARD, *self.headers]


def encode(document: object) -> bytes:
    """Piece by piece: nothing else runs in this process while one is made, and the curves of a long run are megabytes."""
    return "".join(_pieces(document, PIECES_DEEP)).encode("ascii")


def _pieces(document: object, deep: int) -> Iterator[str]:
    if not deep or not isinstance(document, Mapping):
        yield dumps(document)
        return
    separator = "{"
    for key, part in document.items():
        yield f"{separator}{dumps(str(key))}:"
        yield from _pieces(part, deep - 1)
        separator = ","
    yield "}" if document else "{}"


def refusal_of(refused: Refused) -> Response:
    return Response(encode({"error": refused.words}), status=refused.status, headers=refused.headers)


def read_request(environ: Mapping[str, Any]) -> Request:
    """Raises Refused for what can be no path or query of this site."""
    try:
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8")
        pairs = parse_qsl(
            environ.get("QUERY_STRING", ""), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise Refused(400, "the path or the query cannot be read; they are UTF-8, percent-encoded") from None
    headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
    headers["CONTENT_TYPE"] = environ.get("CONTENT_TYPE", "")
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    parts = tuple(path[1:].split("/")) if path != "/" else ()
    return Request(environ["REQUEST_METHOD"], parts, dict(pairs), headers, str(environ.get("REMOTE_ADDR", "")), body)
