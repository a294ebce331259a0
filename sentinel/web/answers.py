"""A request, a response and a refusal of the site: strict JSON, and the security headers that every response carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from sentinel.client.strict_json import dumps
from sentinel.report.masked import masked_json

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
QUERY_FIELDS_MAX = 8
PIECES_DEEP = 3  # curves, of a metric, of an attempt
# Scripts, styles and connections only from this server. No frames, and no form target.
PAGE_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:"
)
# A report is one file with inline styles and no script: nothing in a log line that it quotes can run.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'; sandbox"
GUARD = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class RefusedRequest(Exception):
    """An error response: an HTTP status, and a sentence for a person."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
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
    """In pieces: json.dumps holds the GIL for one whole document, and the curves of a long run are megabytes."""
    return "".join(_json_pieces(document, PIECES_DEEP)).encode("ascii")


def _json_pieces(document: object, deep: int) -> Iterator[str]:
    if not deep or not isinstance(document, Mapping):
        yield masked_json(document)
        return
    separator = "{"
    for key, part in document.items():
        yield f"{separator}{dumps(str(key))}:"
        yield from _json_pieces(part, deep - 1)
        separator = ","
    yield "}" if document else "{}"


def refusal_of(refused: RefusedRequest) -> Response:
    return Response(encode({"error": refused.message}), status=refused.status, headers=refused.headers)


def read_request(environ: Mapping[str, Any]) -> Request:
    """Raises RefusedRequest for a path or a query that is not valid UTF-8."""
    try:
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8")
        pairs = parse_qsl(
            environ.get("QUERY_STRING", ""), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise RefusedRequest(400, "the path or the query cannot be read; they are UTF-8, percent-encoded") from None
    headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
    headers["CONTENT_TYPE"] = environ.get("CONTENT_TYPE", "")
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    parts = tuple(path[1:].split("/")) if path != "/" else ()
    return Request(environ["REQUEST_METHOD"], parts, dict(pairs), headers, str(environ.get("REMOTE_ADDR", "")), body)
