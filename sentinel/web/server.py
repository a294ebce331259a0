"""waitress in a thread of this process, on a listener that is bound already.

waitress reads requests, bounds their size, keeps connections alive and runs the WSGI application in its threads. It expects a
proxy in front of it. There is none here, so this file adds what the proxy would do:

- A deadline for a whole request and for a whole answer. waitress limits silence only: a client that sends one byte a second
  stays for ever, and so does one that never reads its answer.
- An end to requests that are sent without waiting for an answer. One read may hold hundreds, and waitress would answer all of
  them into memory before it looks whether the client takes any.
- Room for newcomers. At its limit of connections waitress stops accepting until a client leaves. Here idle ones are closed.
- A pause when no file descriptor is left. waitress tries again at once, without end.
"""

from __future__ import annotations

import logging
import resource
import socket
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer

from sentinel.clock import SystemClock

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 16
HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 128 << 10  # Slack sends a message whole with the press of a button in it, percent-encoded
ANSWER_BYTES_MAX = 64 << 20  # above any answer of this site: waitress writes a longer one to a temporary file
BACKLOG = 64
AT_ONCE_MAX = 4  # requests of a connection; a browser sends one and waits
CLOSE_S = 2.0
NO_DESCRIPTOR_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`request_s`: from the first byte of a request to its last. `answer_s`: from the first byte of an answer to its last.
    `idle_s`: how long a connection stays open without either. `check_s`: how often these are checked."""

    request_s: float = 10.0
    answer_s: float = 30.0
    idle_s: float = 60.0
    check_s: float = 1.0
    connections: int = 512  # a browser opens up to six, so about eighty viewers

    def fitted(self, files: int) -> ServerLimits:
        """So that this process keeps three of four of the files that it may open: the run's are among them. `files`: negative
        where there is no limit."""
        return self if files < 0 else replace(self, connections=max(8, min(self.connections, files // 4)))


DEFAULT_LIMITS = ServerLimits()


class Server:
    """Serves `app` on a listening socket from `start` to `close`."""

    def __init__(self, listener: socket.socket, app: WSGIApplication, limits: ServerLimits = DEFAULT_LIMITS) -> None:
        self._listener = listener
        self._app = app
        self._limits = limits.fitted(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._waitress: _BoundedServer | None = None
        self._is_closing = threading.Event()

    def start(self) -> None:
        _silence_waitress()
        self._waitress = _BoundedServer(self._app, self._listener, self._limits)
        serve = self._waitress.serve_until
        self._thread = threading.Thread(target=serve, args=(self._is_closing,), name="sentinel-web", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, within CLOSE_S. Requests that are still being answered end with the process. Safe to call twice."""
        server, self._waitress = self._waitress, None
        if server is None:
            self._listener.close()
            return
        self._is_closing.set()
        server.pull_trigger()
        self._thread.join(CLOSE_S / 2)
        server.task_dispatcher.shutdown(timeout=CLOSE_S / 2)
        if not server.task_dispatcher.threads and not self._thread.is_alive():
            # Never before: a busy thread writes to the trigger's pipe when it is done, by number, and the number of a closed
            # pipe may be another file's by then.
            server.trigger.close()


class _Channel(HTTPChannel):  # type: ignore[misc]
    """One connection, and what its client is being waited for."""

    _awaited: object = None  # the request that is not whole yet, or the answer that is not sent yet
    _since_s = 0.0

    def received(self, data: bytes) -> bool:
        """Of more requests at once than a client needs, the first few are answered, and the connection ends with them."""
        is_taken = bool(super().received(data))
        with self.requests_lock:
            if len(self.requests) > AT_ONCE_MAX:
                del self.requests[AT_ONCE_MAX:]
                self.requests[-1].headers["CONNECTION"] = "close"
        return is_taken

    @property
    def is_idle(self) -> bool:
        return not (self.requests or self.request or self.total_outbufs_len)

    def is_late(self, now_s: float, limits: ServerLimits) -> bool:
        """Exact to `limits.check_s`: a wait begins when it is first seen here."""
        awaited = None if self.requests else self.request or ("answer" if self.total_outbufs_len else None)
        if awaited is not self._awaited:
            self._awaited, self._since_s = awaited, now_s
        limit_s = limits.request_s if self.request else limits.answer_s
        return awaited is not None and now_s - self._since_s > limit_s


class _BoundedServer(TcpWSGIServer):  # type: ignore[misc]
    channel_class = _Channel

    def __init__(self, app: WSGIApplication, listener: socket.socket, limits: ServerLimits) -> None:
        self._limits = limits
        self._clock = SystemClock()
        adjustments = Adjustments(
            sockets=[listener],
            threads=THREADS,
            backlog=BACKLOG,
            ident=None,
            asyncore_use_poll=True,  # select() fails at descriptors above 1023
            log_socket_errors=False,
            connection_limit=limits.connections + 3,  # waitress counts the listener and the trigger, and stops at the limit
            max_request_header_size=HEAD_BYTES_MAX + 1,
            max_request_body_size=BODY_BYTES_MAX + 1,
            outbuf_overflow=ANSWER_BYTES_MAX,
        )
        adjustments.channel_timeout, adjustments.cleanup_interval = limits.idle_s, limits.check_s  # not cut to int
        sockinfo = (listener.family, listener.type, listener.proto, listener.getsockname())
        super().__init__(app, _sock=listener, adj=adjustments, sockinfo=sockinfo, bind_socket=False)

    def serve_until(self, is_closing: threading.Event) -> None:
        next_check_s = 0.0
        while not is_closing.is_set():
            wasyncore.loop(timeout=self._limits.check_s, use_poll=True, map=self._map, count=1)
            if (now_s := self._clock.now_s()) >= next_check_s:
                next_check_s = now_s + self._limits.check_s
                self._drop_late(now_s)
        wasyncore.dispatcher.close(self)  # the listener alone; `TcpWSGIServer.close` closes the trigger, too
        for channel in list(self.active_channels.values()):
            channel.handle_close()

    def _drop_late(self, now_s: float) -> None:
        """Between two rounds of the loop: within one, a newcomer could get the number of a closed descriptor and its events."""
        channels = list(self.active_channels.values())
        dropped = [channel for channel in channels if channel.is_late(now_s, self._limits)]
        if self.in_connection_overflow:
            idle = [channel for channel in channels if channel.is_idle]
            dropped += sorted(idle, key=lambda channel: float(channel.last_activity))[: max(1, self._limits.connections // 4)]
        for channel in dropped:
            channel.handle_close()  # setting `will_close` would wait until the client reads

    def accept(self) -> Any:
        try:
            return super().accept()
        except OSError:  # no descriptor is left: the listener stays readable, and the loop would spin
            self._clock.wait(threading.Event(), NO_DESCRIPTOR_PAUSE_S)
            return None


def _silence_waitress() -> None:
    """The terminal belongs to the run. waitress logs queue depths, and exceptions of the application; `Site` raises none."""
    logger = logging.getLogger("waitress")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
