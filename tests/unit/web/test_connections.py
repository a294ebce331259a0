"""The server on real sockets: slow, rude and many clients; each costs what it may and no more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from sentinel.web.address import Address, bind
from sentinel.web.connections import CONNECTIONS_MAX, IDLE_S, REQUEST_S, SEND_S, Server
from sentinel.web.workers import THREADS_MAX, WAITING_MAX
from tests.fakes import ManualClock
from tests.integration.supervised import wait_for
from tests.unit.web.web_kit import DEADLINE_S, hear

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BIG = 8 << 20
Start = Callable[..., Any]


class Echo:
    """Answers with the path. `/held` waits until `release`; `/big` is big; `/broken` fails; `/split` would split a header."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.held = threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/broken":
            raise ZeroDivisionError("a secret of the stack")
        if path == "/held":
            self.held.release()
            assert self.release.wait(DEADLINE_S)
        header = "a\r\nSet-Cookie: b" if path == "/split" else "plain"
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Said", header)])
        return [b"x" * BIG if path == "/big" else path.encode() + environ["wsgi.input"].read()]


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = Echo()
        self.server = Server(bind(Address("127.0.0.1", 0)), self.app, self.clock)
        self.server.start()
        self.address = self.server._name

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, DEADLINE_S)

    def say(self, *pieces: bytes) -> bytes:
        with closing(self.connect()) as sock:
            for piece in pieces:
                sock.sendall(piece)
            return hear(sock)

    def wait_for_end_after(self, seconds: float) -> None:
        """Of all connections; time passes until the server has noticed."""

        def is_empty() -> bool:
            self.clock.advance(seconds + 1)
            return not self.server._connections

        wait_for("their end", is_empty)

    def is_alive(self) -> bool:
        return self.say(LAST % b"/alive").endswith(b"/alive")


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.app.release.set()
    made.server.close()
    assert not made.server._thread.is_alive()


def test_one_connection_carries_many_requests_and_their_bodies(rig: Rig) -> None:
    post = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{1}"
    heard = rig.say(GET % b"/a" + post, LAST % b"/c")
    assert heard.count(b"HTTP/1.1 200 OK") == 3
    assert heard.index(b"/a") < heard.index(b"/b{1}") < heard.index(b"/c")


def test_a_request_that_comes_byte_by_byte_is_answered(rig: Rig) -> None:
    assert rig.say(*(bytes([byte]) for byte in LAST % b"/slow")).endswith(b"/slow")


def test_a_client_that_never_ends_its_request_is_sent_away_and_holds_no_thread(rig: Rig) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(rig.connect())) for _ in range(3 * THREADS_MAX)]
        for sock in slow:
            sock.sendall(b"GET / HTTP/1.1\r\nX: ")
        wait_for("their first bytes", lambda: sum(bool(c.received) for c in list(rig.server._connections)) == len(slow))
        assert rig.is_alive()
        rig.clock.advance(REQUEST_S + 1)
        assert all(b"408 Request Timeout" in hear(sock) for sock in slow)
    assert rig.is_alive()


def test_a_client_that_asks_nothing_is_dropped_after_a_while(rig: Rig) -> None:
    with closing(rig.connect()) as sock:
        sock.sendall(GET % b"/a")
        assert sock.recv(4096)
        rig.wait_for_end_after(IDLE_S)
        assert hear(sock) == b""


def test_a_client_that_reads_slowly_holds_no_thread_and_is_dropped(rig: Rig) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(rig.connect())) for _ in range(THREADS_MAX + 1)]
        for sock in slow:
            sock.sendall(GET % b"/big")
        wait_for("their answers", lambda: sum(bool(c.left) for c in list(rig.server._connections)) == len(slow))
        assert rig.is_alive()
        rig.wait_for_end_after(SEND_S)


def test_a_big_answer_comes_whole(rig: Rig) -> None:
    assert rig.say(LAST % b"/big").endswith(b"x" * BIG)


def test_more_than_can_be_answered_at_once_is_told_to_come_again(rig: Rig) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(closing(rig.connect())) for _ in range(THREADS_MAX + WAITING_MAX)]
        for number, sock in enumerate(held):
            sock.sendall(LAST % b"/held")
            if number < THREADS_MAX:
                assert rig.app.held.acquire(timeout=DEADLINE_S)
        wait_for("all of them", lambda: sum(c.is_working for c in list(rig.server._connections)) == len(held))
        assert b"503 Service Unavailable" in rig.say(GET % b"/one-more")
        rig.app.release.set()
        assert all(hear(sock).endswith(b"/held") for sock in held)
    assert rig.is_alive()


def test_when_all_places_are_taken_the_longest_idle_one_goes(rig: Rig) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(closing(rig.connect()))
        wait_for("the first", lambda: len(rig.server._connections) == 1)
        rig.clock.advance(1.0)
        for _ in range(CONNECTIONS_MAX - 1):
            stack.enter_context(closing(rig.connect()))
        wait_for("the others", lambda: len(rig.server._connections) == CONNECTIONS_MAX)
        assert rig.is_alive()
        assert hear(first) == b""


def test_a_body_that_is_too_long_is_refused_in_words_while_it_still_comes(rig: Rig) -> None:
    with closing(rig.connect()) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" + b"x" * (256 << 10))
        assert b"413" in hear(sock).splitlines()[0]


def test_a_client_that_goes_away_takes_nobody_with_it(rig: Rig) -> None:
    for said in (b"", b"GET /", GET % b"/big"):
        with closing(rig.connect()) as sock:
            sock.sendall(said)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not a goodbye
    assert rig.is_alive()


def test_a_bug_of_the_application_is_an_answer_without_its_traceback(rig: Rig) -> None:
    heard = rig.say(LAST % b"/broken")
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"ZeroDivisionError" in heard
    assert b"secret" not in heard
    assert rig.is_alive()


def test_no_header_is_ever_split(rig: Rig) -> None:
    heard = rig.say(LAST % b"/split")
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"Set-Cookie" not in heard


def test_head_is_get_without_its_body(rig: Rig) -> None:
    heard = rig.say(b"HEAD /seven HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"\r\nContent-Length: 6\r\n" in heard
    assert heard.endswith(b"\r\n\r\n")


def test_closing_is_quick_while_requests_are_held_and_can_be_done_twice() -> None:
    rig = Rig()
    with closing(rig.connect()) as sock:
        sock.sendall(GET % b"/held")
        assert rig.app.held.acquire(timeout=DEADLINE_S)
        rig.server.close()
        rig.server.close()
        assert not rig.server._thread.is_alive()
        assert hear(sock) == b""
    rig.app.release.set()
