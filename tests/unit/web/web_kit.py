"""A site over runs on disk, served on loopback for real, and clients for it: one that speaks HTTP, one that says any bytes."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentinel.journal.session import take_run
from sentinel.model.facts import RequestAnswered
from sentinel.model.readings import RequestReading
from sentinel.telemetry.inbox import Inbox
from sentinel.web.address import Address
from sentinel.web.opening import OpenSite, open_site
from sentinel.web.runs import Runs
from tests.unit.told_run import START_S, told, write_run, write_stream

DEADLINE_S = 20.0
TOKEN = "0123456789abcdef-of-the-tests"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def write_told(folder: Path, until: float = 1e9, name: str = "demo") -> Path:
    """The told run with its streams, as far as it has come by `until`."""
    run_dir = write_run(folder / name, until)
    for attempt, steps, since in ((1, range(1, 133), 4.5), (2, range(101, 385), 34.5), (3, range(351, 601), 96.5)):
        if until >= since:
            write_stream(run_dir, attempt, steps)
    return run_dir


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_constant=lambda word: pytest_fail(word))


def pytest_fail(word: str) -> None:
    raise AssertionError(f"bare {word} is not JSON")


@dataclass
class Served:
    site: OpenSite
    address: tuple[str, int] = field(init=False)

    def __post_init__(self) -> None:
        host, _, port = self.site.url.removeprefix("http://").rstrip("/").rpartition(":")
        self.address = (host.strip("[]"), int(port))

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        return self.ask(method, path, None, headers or {})

    def post(self, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"{}") -> Answer:
        return self.ask("POST", path, body, {**JSON, **BEARER} if headers is None else headers)

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        with closing(http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)) as connection:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())

    def say(self, *pieces: bytes) -> bytes:
        """These bytes, and everything that comes back until the server closes."""
        with closing(socket.create_connection(self.address, DEADLINE_S)) as sock:
            for piece in pieces:
                sock.sendall(piece)
            return hear(sock)


def hear(sock: socket.socket) -> bytes:
    heard = b""
    while data := sock.recv(65536):
        heard += data
    return heard


@contextmanager
def served(*places: Path, token: str = "", host: str = "127.0.0.1", own: Path | None = None, **more: Any) -> Iterator[Served]:
    site = open_site(Address(host, 0), token, Runs(places, own=own), **more)
    with closing(site):
        site.start()
        yield Served(site)


@contextmanager
def supervised(run_dir: Path, granted: bool = True, answers: bool = True) -> Iterator[list[RequestReading]]:
    """Somebody who holds the run and answers every wish; the wishes heard."""
    heard: list[RequestReading] = []
    ready, done = threading.Event(), threading.Event()

    def work() -> None:
        inbox = Inbox(run_dir)
        with take_run(run_dir) as session:
            ready.set()
            deadline = time.monotonic() + DEADLINE_S
            while not done.is_set() and time.monotonic() < deadline:
                for wish in inbox.poll(0.0) if answers else ():
                    assert isinstance(wish, RequestReading)
                    heard.append(wish)
                    fact = RequestAnswered(wish.id, wish.by, wish.request, granted, "as you wish" if granted else "not now")
                    session.journal.append(START_S + 5000.0 + len(heard), [fact], session.epoch)
                time.sleep(0.01)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(DEADLINE_S)
    try:
        yield heard
    finally:
        done.set()
        thread.join(DEADLINE_S)


def append_told(run_dir: Path, since: float, until: float) -> None:
    """What the told run says from `since` on."""
    with take_run(run_dir) as session:
        for when, fact in told(until)[len(told(since)) :]:
            session.journal.append(START_S + when, [fact], session.epoch)
