"""Requests out of bytes: whole ones are taken, halves wait, and what two programs could read differently is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.web.http_request import BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, BadRequest, take_request

GET = b"GET /api/runs?a=1 HTTP/1.1\r\nHost: localhost\r\nX-Who: me \r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


def test_a_request_is_taken_and_what_follows_stays() -> None:
    received = bytearray(GET + POST + b"GET /")
    first = take_request(received)
    assert first is not None
    assert (first.method, first.target, first.headers["x-who"], first.is_kept_alive) == ("GET", "/api/runs?a=1", "me", True)
    second = take_request(received)
    assert second is not None
    assert (second.method, second.body) == ("POST", b"{}")
    assert take_request(received) is None
    assert received == b"GET /"


@given(st.integers(0, len(GET + POST) - 1))
def test_a_request_cut_anywhere_waits_for_its_rest(cut: int) -> None:
    received = bytearray((GET + POST)[:cut])
    found = []
    for rest in ((GET + POST)[cut:], b""):
        while (request := take_request(received)) is not None:
            found.append(request.method)
        received += rest
    while (request := take_request(received)) is not None:
        found.append(request.method)
    assert found == ["GET", "POST"]


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for received in (bytearray(data), bytearray(data + b"\r\n\r\n"), bytearray(b"GET / HTTP/1.1\r\n" + data + b"\r\n\r\n")):
        with suppress(BadRequest):
            take_request(received)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.0", b"GET / HTTP/1.1\r\nConnection: Close"])
def test_old_clients_and_those_that_say_so_are_answered_once(line: bytes) -> None:
    request = take_request(bytearray(line + b"\r\n\r\n"))
    assert request is not None
    assert not request.is_kept_alive


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (HEADERS_MAX + 1) + b"\r\n", 431),
        (b"GET /" + b"a" * HEAD_BYTES_MAX, 431),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
def test_what_can_be_read_in_two_ways_or_is_too_much_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        take_request(bytearray(data))
    assert caught.value.status == status
