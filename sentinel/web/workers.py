"""A bounded number of threads that answer requests, and how a WSGI application is asked for one answer.

Threads start when they are needed and are daemons: one that hangs on a disk that hangs keeps nobody from leaving.
"""

from __future__ import annotations

import io
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from sentinel.web.http_request import HttpRequest

THREADS_MAX = 16
WAITING_MAX = 64
Job = Callable[[], None]
WsgiApplication = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Workers:
    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue(WAITING_MAX)
        self._threads_max = threads_max
        self._threads = 0
        self._busy = 0
        self._lock = threading.Lock()

    def submit(self, job: Job) -> bool:
        """False when too much is waiting already; the job is then not done. `job` does not raise."""
        with self._lock:
            if self._busy + self._jobs.qsize() >= self._threads < self._threads_max:
                self._threads += 1
                threading.Thread(target=self._work, name=f"sentinel-web-{self._threads}", daemon=True).start()
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Those that are idle end; one that is busy ends when it is done. Nobody is waited for."""
        for _ in range(self._threads):
            try:
                self._jobs.put_nowait(None)
            except queue.Full:
                return

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._busy += 1
            job()
            with self._lock:
                self._busy -= 1


def answer_of(app: WsgiApplication, request: HttpRequest, peer: str, server: tuple[str, int]) -> bytes:
    """The whole answer as bytes. A bug in the application is an answer, too."""
    said: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        del exc_info
        said[:] = [status, headers]
        return written.append

    written: list[bytes] = []
    try:
        chunks = app(environ_of(request, peer, server), start_response)
        body = b"".join([*written, *chunks])
        status, headers = said
        head = head_of(status, headers, len(body), request.is_kept_alive)
    except Exception as bug:  # noqa: BLE001 - a bug in the page must cost this answer and nothing else
        return refusal(500, f"an error of the page itself: {type(bug).__name__}")
    return head if request.method == "HEAD" else head + body


def refusal(status: int, words: str) -> bytes:
    """An answer to what never became a request; the connection ends behind it."""
    body = f"{words}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]
    return head_of(f"{status} {HTTPStatus(status).phrase}", headers, len(body), is_kept_alive=False) + body


def head_of(status: str, headers: Iterable[tuple[str, str]], length: int, is_kept_alive: bool) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    assert not any("\r" in line or "\n" in line for line in lines), "a header never holds a line end"
    lines += [f"Content-Length: {length}", f"Date: {formatdate(usegmt=True)}"]
    lines.append(f"Connection: {'keep-alive' if is_kept_alive else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def environ_of(request: HttpRequest, peer: str, server: tuple[str, int]) -> dict[str, Any]:
    """As PEP 3333 asks for it."""
    path, _, query = request.target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": peer,
        "CONTENT_LENGTH": str(len(request.body)),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        if "_" not in name and name not in ("content-length", "content-type"):  # x_a would pass for x-a
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    return environ
