"""Real servers on loopback for tests of what talks to servers: HTTP that answers as told, sockets that answer anything, SMTP."""

from __future__ import annotations

import queue
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sentinel.client.strict_json import loads

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return loads(self.body)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


class HttpServer:
    """`replies`: the next answers, a Reply or what makes one of the request; when they are used up, 200. `hold` makes every
    answer wait until `release`."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.received: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self.replies: list[Reply | Callable[[Received], Reply]] = []
        self.always: Callable[[Received], Reply] = lambda received: Reply()
        self._open = threading.Event()
        self._open.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                got = Received(self.command, self.path, dict(self.headers.items()), body)
                outer.received.put(got)
                outer._open.wait(DEADLINE_S)
                reply = outer.replies.pop(0) if outer.replies else outer.always
                reply = reply if isinstance(reply, Reply) else reply(got)
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_POST = do_GET = answer

            def log_message(self, *words: object) -> None: ...

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *words: object) -> None: ...

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.scheme}://{self.host}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def next(self) -> Received:
        return self.received.get(timeout=DEADLINE_S)

    def all(self) -> list[Received]:
        """What has come until now."""
        found = []
        while not self.received.empty():
            found.append(self.received.get())
        return found

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def raw_server(talk: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Each connection is given to `talk`, with an event that is set at the end; yields host and port."""
    listener, over = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                talk(connection, over)
            except OSError:
                return

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept; closing alone would leave it listening
        listener.close()


def drip(start: bytes, piece: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """Answers a byte now and then, for ever."""

    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(start)
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            if over.wait(0.02):
                return
            connection.sendall(piece)

    return talk


@dataclass
class Mailbox:
    """What a server of `smtp_server` was told: the lines of each session, and the mails it took."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    mails: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)
    says: dict[str, str] = field(default_factory=dict)  # the first word of a command → the answer to it
    extensions: tuple[str, ...] = ("8BITMIME", "SMTPUTF8", "AUTH PLAIN LOGIN")


@contextmanager
def smtp_server(certificate: Path | None = None) -> Iterator[Mailbox]:
    """A mail server that takes everything unless `says` has other words. `{line}` in them is what it was told."""
    box = Mailbox()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        box.extensions += ("STARTTLS",)

    def talk(connection: socket.socket, over: threading.Event) -> None:
        del over
        connection.sendall(b"220 stub\r\n")
        reader = connection.makefile("rb")
        while line := reader.readline().decode("utf-8", "replace").rstrip():
            box.lines.append(line)
            word = line.partition(" ")[0].upper()
            if word in box.says:
                connection.sendall(box.says[word].format(line=line).encode() + b"\r\n")
            elif word == "EHLO":
                said = ["stub", *box.extensions]
                connection.sendall(b"".join(f"250{'-' if w is not said[-1] else ' '}{w}\r\n".encode() for w in said))
            elif word == "STARTTLS" and context is not None:
                connection.sendall(b"220 go\r\n")
                connection = context.wrap_socket(connection, server_side=True)
                reader = connection.makefile("rb")
            elif word == "AUTH":
                connection.sendall(b"235 in\r\n")
            elif word == "DATA":
                connection.sendall(b"354 go\r\n")
                box.mails.put(b"".join(iter(reader.readline, b".\r\n")))
                connection.sendall(b"250 taken\r\n")
            elif word == "QUIT":
                connection.sendall(b"221 bye\r\n")
                return
            else:
                connection.sendall(b"250 ok\r\n")

    with raw_server(talk) as place:
        box.port = int(place.rpartition(":")[2])
        yield box


def make_certificate(folder: Path) -> Path:
    """A self-signed one for 127.0.0.1, key and certificate in one file."""
    path, key = folder / "server.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    path.write_text(path.read_text() + key.read_text())
    return path
