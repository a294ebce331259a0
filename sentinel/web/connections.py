"""The server's one thread for sockets: it gathers whole requests, hands them to the workers, and sends what they answered.

So a client that sends or reads slowly costs a socket and some bytes, never a thread; what it may take is bounded everywhere.
"""

from __future__ import annotations

import queue
import selectors
import socket
import threading
from contextlib import suppress

from sentinel.clock import Clock, SystemClock
from sentinel.web.http_request import BadRequest, HttpRequest, take_request
from sentinel.web.workers import Workers, WsgiApplication, answer_of, refusal

REQUEST_S = 10.0  # from its first byte to its last
SEND_S = 30.0  # of one answer
IDLE_S = 60.0  # a connection that is kept open and asks nothing
CONNECTIONS_MAX = 128
RECEIVE_BYTES = 16 << 10
TICK_S = 0.5
LINGER_S = 1.0
CLOSE_S = 2.0


class Connection:
    """`since_s`: when the client began to be waited for. `is_working`: a worker has its request. `left`: bytes still to be sent.
    `ends`: once they are. `lingers`: all is sent, and the client is given a moment to read it before the socket is closed, which
    would take the answer away from one that is still sending."""

    __slots__ = ("ends", "is_working", "left", "lingers", "peer", "received", "since_s", "socket")

    def __init__(self, sock: socket.socket, peer: str, now_s: float) -> None:
        self.socket = sock
        self.peer = peer
        self.received = bytearray()
        self.left = memoryview(b"")
        self.is_working = False
        self.ends = self.lingers = False
        self.since_s = now_s

    @property
    def is_idle(self) -> bool:
        return not (self.is_working or self.left or self.received)

    def is_late(self, now_s: float) -> bool:
        limit_s = LINGER_S if self.lingers else SEND_S if self.left else REQUEST_S if self.received else IDLE_S
        return not self.is_working and now_s - self.since_s > limit_s


class Server:
    """Serves `app` on a listening socket from `start` to `close`."""

    def __init__(self, listener: socket.socket, app: WsgiApplication, clock: Clock | None = None) -> None:
        self._listener = listener
        self._app = app
        self._clock = clock or SystemClock()
        name = listener.getsockname()
        self._name: tuple[str, int] = (str(name[0]), int(name[1]))
        self._workers = Workers()
        self._connections: set[Connection] = set()
        self._answers: queue.SimpleQueue[tuple[Connection, bytes, bool]] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._is_accepting = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name="sentinel-web", daemon=True)

    def start(self) -> None:
        for sock in (self._listener, self._bell, self._ear):
            sock.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, for CLOSE_S at most. Safe to call twice."""
        self._is_closing = True
        self._ring()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        for sock in (self._listener, self._bell, self._ear):
            sock.close()
        self._selector.close()
        self._workers.close()

    def _serve(self) -> None:
        try:
            while not self._is_closing:
                self._accept_again()
                for key, events in self._selector.select(TICK_S if self._connections else None):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._ear:
                        with suppress(BlockingIOError):
                            self._ear.recv(4096)
                    elif isinstance(key.data, Connection) and key.data in self._connections:
                        self._go_on(key.data, events)
                self._take_answers()
                self._drop_late()
        finally:
            for connection in list(self._connections):
                self._drop(connection)

    # -- who comes -----------------------------------------------------------------------------------------------------

    def _accept_again(self) -> None:
        if not self._is_accepting:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._is_accepting = True

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor is left: the listener would stay readable, and this loop would spin
            self._selector.unregister(self._listener)
            self._is_accepting = False
            self._clock.wait(threading.Event(), TICK_S)
            return
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._connections) >= CONNECTIONS_MAX:
            idle = [known for known in self._connections if known.is_idle]
            if not idle:
                with suppress(OSError):
                    sock.send(refusal(503, "too many connections; try again in a moment"))
                sock.close()
                return
            self._drop(min(idle, key=lambda known: known.since_s))
        connection = Connection(sock, str(peer[0]), self._clock.now_s())
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _drop_late(self) -> None:
        now_s = self._clock.now_s()
        for connection in [known for known in self._connections if known.is_late(now_s)]:
            if connection.received and not connection.left:
                with suppress(OSError):
                    connection.socket.send(refusal(408, f"a whole request comes within {REQUEST_S:g} s"))
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.discard(connection)
        with suppress(KeyError, ValueError):  # a worker has it
            self._selector.unregister(connection.socket)
        connection.socket.close()

    # -- what they ask, and what they get ------------------------------------------------------------------------------

    def _go_on(self, connection: Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(connection)
            elif events & selectors.EVENT_READ:
                self._receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)

    def _receive(self, connection: Connection) -> None:
        data = connection.socket.recv(RECEIVE_BYTES)
        if not data:
            self._drop(connection)
        if not data or connection.lingers:
            return
        if not connection.received:
            connection.since_s = self._clock.now_s()
        connection.received += data
        self._ask(connection)

    def _ask(self, connection: Connection) -> None:
        """Hand over the next request, if it is whole."""
        try:
            request = take_request(connection.received)
        except BadRequest as bad:
            self._answer(connection, refusal(bad.status, bad.words), ends=True)
            return
        if request is None:
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            return
        connection.is_working = True
        self._selector.unregister(connection.socket)  # until it is answered: what more it sends waits in the kernel
        if not self._workers.submit(lambda: self._work(connection, request)):
            connection.is_working = False
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._answer(connection, refusal(503, "too many requests at once; try again in a moment"), ends=True)

    def _work(self, connection: Connection, request: HttpRequest) -> None:
        """In a worker."""
        answer = answer_of(self._app, request, connection.peer, self._name)
        self._answers.put((connection, answer, not request.is_kept_alive))
        self._ring()

    def _take_answers(self) -> None:
        while not self._answers.empty():
            connection, answer, ends = self._answers.get()
            if connection in self._connections:
                connection.is_working = False
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
                try:
                    self._answer(connection, answer, ends)
                except BlockingIOError:
                    continue
                except OSError:
                    self._drop(connection)

    def _answer(self, connection: Connection, answer: bytes, ends: bool) -> None:
        connection.left, connection.ends, connection.since_s = memoryview(answer), ends, self._clock.now_s()
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        while connection.left:
            try:
                sent = connection.socket.send(connection.left)
            except BlockingIOError:
                self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
                return
            connection.left = connection.left[sent:]
        connection.since_s = self._clock.now_s()
        if connection.ends:
            connection.lingers = True
            connection.received.clear()
            connection.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        else:
            self._ask(connection)  # the next one may be here already

    def _ring(self) -> None:
        with suppress(OSError):
            self._bell.send(b"\0")
