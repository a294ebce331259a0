"""The server on real sockets: slow, rude and many clients. Each costs what it may and no more."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from sentinel.web.address import Address, bind
from sentinel.web.server import (
    AT_ONCE_MAX,
    BODY_BYTES_MAX,
    CLOSE_S,
    DEFAULT_LIMITS,
    HEAD_BYTES_MAX,
    THREADS,
    Server,
    ServerLimits,
)
from tests.integration.supervised import wait_for
from tests.unit.web.web_kit import DEADLINE_S, hear

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BIG = 8 << 20
NEVER = 1000.0
PATIENT = ServerLimits(NEVER, NEVER, NEVER, check_s=0.02)
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
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Echo", header)])
        return [b"x" * BIG if path == "/big" else path.encode() + environ["wsgi.input"].read()]


class Rig:
    def __init__(self, limits: ServerLimits = DEFAULT_LIMITS) -> None:
        self.app = Echo()
        listener = bind(Address("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.server = Server(listener, self.app, limits)
        self.server.start()

    def channels(self) -> list[Any]:
        assert self.server._waitress is not None
        return list(self.server._waitress.active_channels.values())

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, DEADLINE_S)

    def say(self, *pieces: bytes) -> bytes:
        with closing(self.connect()) as sock:
            for piece in pieces:
                sock.sendall(piece)
            return hear(sock)

    def is_alive(self) -> bool:
        return self.say(LAST % b"/alive").endswith(b"/alive")

    def close(self) -> None:
        self.app.release.set()
        self.server.close()
        assert not self.server._thread.is_alive()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with closing(Rig()) as made:
        yield made


def test_one_connection_carries_many_requests_and_their_bodies(rig: Rig) -> None:
    post = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{1}"
    heard = rig.say(GET % b"/a" + post, LAST % b"/c")
    assert heard.count(b"HTTP/1.1 200 OK") == 3
    assert heard.index(b"/a") < heard.index(b"/b{1}") < heard.index(b"/c")


@pytest.mark.parametrize(("files", "connections"), [(256, 64), (1024, 256), (1 << 20, 512), (10, 8), (-1, 512)])
def test_connections_leave_the_files_that_supervision_needs(files: int, connections: int) -> None:
    """Six hundred that asked nothing took all 256 files of a process, and it ended."""
    assert ServerLimits().fitted(files).connections == connections


def test_of_many_requests_at_once_the_first_few_are_answered_and_the_connection_ends(rig: Rig) -> None:
    """A client that reads nothing would else fill the memory of the process that supervises the run: 108 answers a connection."""
    heard = rig.say(GET % b"/a" * 100)
    assert heard.count(b"HTTP/1.1 200 OK") == AT_ONCE_MAX
    assert rig.is_alive()


def test_a_request_that_comes_byte_by_byte_is_answered(rig: Rig) -> None:
    assert rig.say(*(bytes([byte]) for byte in LAST % b"/slow")).endswith(b"/slow")


def test_a_client_that_sends_and_never_ends_its_request_is_dropped_and_holds_no_thread() -> None:
    limits = ServerLimits(request_s=0.5, answer_s=NEVER, idle_s=NEVER, check_s=0.02)
    with closing(Rig(limits)) as rig, ExitStack() as stack:
        slow = [stack.enter_context(closing(rig.connect())) for _ in range(3 * THREADS)]
        for sock in slow:
            sock.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert rig.is_alive()

        def drip() -> bool:  # never silent, never done
            for sock in slow:
                try:
                    sock.send(b"a")
                except OSError:
                    continue
            return not rig.channels()

        wait_for("their end", drip)


def test_a_client_that_asks_nothing_is_dropped_after_a_while() -> None:
    with closing(Rig(ServerLimits(NEVER, NEVER, idle_s=0.3, check_s=0.02))) as rig, closing(rig.connect()) as sock:
        sock.sendall(GET % b"/a")
        assert hear(sock).endswith(b"/a")


def test_a_client_that_never_reads_its_answer_is_dropped_and_holds_no_thread() -> None:
    with closing(Rig(ServerLimits(NEVER, answer_s=0.5, idle_s=NEVER, check_s=0.02))) as rig, ExitStack() as stack:
        slow = [stack.enter_context(closing(rig.connect())) for _ in range(THREADS + 1)]
        for sock in slow:
            sock.sendall(GET % b"/big")
        assert rig.is_alive()
        wait_for("their end", lambda: not rig.channels())


def test_a_big_answer_comes_whole_and_touches_no_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waitress.buffers.TempfileBasedBuffer", None)
    assert rig.say(LAST % b"/big").endswith(b"x" * BIG)


def test_what_cannot_be_answered_at_once_is_answered_later(rig: Rig) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(closing(rig.connect())) for _ in range(2 * THREADS)]
        for sock in held:
            sock.sendall(LAST % b"/held")
        for _ in range(THREADS):
            assert rig.app.held.acquire(timeout=DEADLINE_S)
        rig.app.release.set()
        assert all(hear(sock).endswith(b"/held") for sock in held)


def test_when_all_places_are_taken_the_idle_ones_make_room() -> None:
    limits = ServerLimits(NEVER, NEVER, NEVER, check_s=0.02, connections=8)
    with closing(Rig(limits)) as rig, ExitStack() as stack:
        idle = [stack.enter_context(closing(rig.connect())) for _ in range(limits.connections)]
        busy = stack.enter_context(closing(rig.connect()))
        busy.sendall(LAST % b"/held")
        assert rig.app.held.acquire(timeout=DEADLINE_S)
        assert rig.is_alive()
        assert any(hear(sock) == b"" for sock in idle)
        rig.app.release.set()
        assert hear(busy).endswith(b"/held")


def chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b"x" * size + b"\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(BODY_BYTES_MAX + 1) + b"0\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES_MAX, 431),
    ],
)
def test_a_request_with_two_readings_or_too_large_is_refused(rig: Rig, request_bytes: bytes, status: int) -> None:
    answer = rig.say(request_bytes)
    assert answer.split()[1] == str(status).encode()
    assert answer.count(b"HTTP/1.") == 1
    assert rig.is_alive()


def test_the_largest_body_is_taken(rig: Rig) -> None:
    body = b"x" * BODY_BYTES_MAX
    head = b"POST /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert rig.say(head + body).endswith(b"/b" + body)


def test_a_client_that_goes_away_takes_nobody_with_it(rig: Rig) -> None:
    for request in (b"", b"GET /", GET % b"/big"):
        with closing(rig.connect()) as sock:
            sock.sendall(request)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not a goodbye
    assert rig.is_alive()


def test_a_bug_of_the_application_is_an_answer_and_its_traceback_goes_nowhere(
    rig: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    heard = rig.say(LAST % b"/broken")
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in heard
    assert rig.is_alive()
    assert capfd.readouterr() == ("", "")


def test_no_header_is_ever_split(rig: Rig) -> None:
    heard = rig.say(LAST % b"/split")
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"Set-Cookie" not in heard


def test_a_process_without_descriptors_waits_for_one_and_does_not_spin(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    assert rig.server._waitress is not None
    monkeypatch.setattr(rig.server._waitress._clock, "wait", lambda event, seconds: pauses.append(seconds))
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(socket.socket()) as sock:
        sock.settimeout(DEADLINE_S)
        spare = os.dup(0)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            sock.connect(rig.address)
            wait_for("a pause", lambda: len(pauses) > 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sock.sendall(LAST % b"/later")
        assert hear(sock).endswith(b"/later")


def test_no_child_inherits_a_descriptor_of_the_server(rig: Rig) -> None:
    with closing(rig.connect()) as sock:
        sock.sendall(GET % b"/a")
        assert sock.recv(4096)
        server = rig.server._waitress
        assert server is not None
        fds = [server.socket.fileno(), *server.trigger._fds, *(channel.socket.fileno() for channel in rig.channels())]
        assert len(fds) == 4
        assert not any(os.get_inheritable(fd) for fd in fds)


def test_closing_is_quick_while_requests_are_held_and_can_be_done_twice() -> None:
    rig = Rig(PATIENT)
    with closing(rig.connect()) as sock:
        sock.sendall(GET % b"/held")
        assert rig.app.held.acquire(timeout=DEADLINE_S)
        server = rig.server._waitress
        assert server is not None
        rig.server.close()
        rig.server.close()
        assert not rig.server._thread.is_alive()
        assert hear(sock) == b""
        assert not server.trigger._closed, "a busy thread will write to its pipe"
    rig.app.release.set()


def test_closing_what_is_idle_leaves_nothing_open() -> None:
    rig = Rig()
    assert rig.is_alive()
    server = rig.server._waitress
    assert server is not None
    rig.close()
    assert server.trigger._closed
    assert CLOSE_S < DEADLINE_S
    with pytest.raises(ConnectionRefusedError):
        rig.connect()
