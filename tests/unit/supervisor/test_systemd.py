"""What systemd is told: ready, a completed turn, waiting, leaving; over real sockets, and nothing where nobody listens."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.cli import root as cli
from sentinel.errors import JournalBlocked, WatchLost
from sentinel.supervisor import systemd as notify
from sentinel.supervisor.journal_outage import JournalOutage
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.systemd import EVERY_S, STATUS_CHARS_MAX, Notifier

DEADLINE_S = 10.0


class Systemd:
    """The other end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        """All that has come; a datagram is there when its sender has gone on."""
        said = []
        while True:
            try:
                said.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return said

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    listening = Systemd(str(tmp_path / "notify") if request.param == "path" else f"@sentinel-test-{os.getpid()}-{tmp_path.name}")
    yield listening
    listening.close()


def test_a_life_in_order(systemd: Systemd) -> None:
    with Notifier(systemd.address) as told:
        told.ready()
        told.alive(0.0, lambda: "big: training")
    assert systemd.heard() == ["READY=1", "WATCHDOG=1\nSTATUS=big: training", "STOPPING=1"]


def test_only_a_turn_that_was_completed_feeds_the_watchdog(systemd: Systemd) -> None:
    turns: list[float] = []
    before_turn = Notifier(systemd.address).after_turns(turns.append, lambda: "")
    before_turn(0.0)
    assert systemd.heard() == [], "the first turn has not been yet, and may hang"
    before_turn(1.0)
    assert (turns, systemd.heard()) == ([0.0, 1.0], ["WATCHDOG=1"])


def test_a_turn_that_may_not_be_says_nothing(systemd: Systemd) -> None:
    """Fenced: another supervisor has the run."""

    def before(now_s: float) -> None:
        if now_s > 1.0:
            raise WatchLost("taken over")

    before_turn = Notifier(systemd.address).after_turns(before, lambda: "")
    before_turn(0.0)
    with pytest.raises(WatchLost):
        before_turn(2.0)
    assert systemd.heard() == []


def test_it_is_said_once_a_second_and_the_status_is_only_made_then(systemd: Systemd) -> None:
    made: list[int] = []
    told = Notifier(systemd.address)
    for tenth in range(31):
        told.alive(tenth / 10, lambda: str(made.append(1)))
    assert len(made) == len(systemd.heard()) == int(3 / EVERY_S) + 1


def test_a_status_is_one_short_line_and_never_another_word(systemd: Systemd) -> None:
    Notifier(systemd.address).waiting("full\nSTOPPING=1\x1b[31m" + "x" * 999)
    (said,) = systemd.heard()
    word, status = said.split("\n")
    assert (word, status[:24], len(status)) == ("WATCHDOG=1", "STATUS=fullSTOPPING=1[31", len("STATUS=") + STATUS_CHARS_MAX)


def test_who_waits_for_the_disk_says_so_and_is_not_ended(systemd: Systemd) -> None:
    wishes = StopSignals()
    outage = JournalOutage(Path("run"), wishes, Notifier(systemd.address))
    outage.begin()
    wishes.event.set()
    with pytest.raises(WatchLost):
        outage.wait_out(JournalBlocked("run/sentinel.db: the disk is full"))
    assert systemd.heard() == ["WATCHDOG=1\nSTATUS=waiting: run/sentinel.db: the disk is full"]


def test_nobody_listens_and_nothing_happens(tmp_path: Path) -> None:
    for address in ("", str(tmp_path / "gone"), "@nobody-is-here", "x" * 500, "\0odd"):
        with Notifier(address) as told:
            told.ready()
            told.alive(0.0, lambda: "training")


def test_a_listener_that_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    systemd = Systemd(str(tmp_path / "notify"))
    told = Notifier(systemd.address)
    done = threading.Event()

    def say_a_lot() -> None:
        for _ in range(2000):
            told.waiting("full")
        done.set()

    threading.Thread(target=say_a_lot, daemon=True).start()
    assert done.wait(DEADLINE_S)
    systemd.close()


def test_what_sentinel_starts_cannot_speak_for_it(monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> None:
    for name, value in ((notify.SOCKET_VARIABLE, systemd.address), ("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "1")):
        monkeypatch.setenv(name, value)
    Notifier.from_environment().ready()
    assert systemd.heard() == ["READY=1"]
    assert not {notify.SOCKET_VARIABLE, *notify.WATCHDOG_VARIABLES} & set(os.environ)


def test_a_bug_ends_in_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """1 says that the run failed and a person must answer: who starts sentinel must not take a bug for that."""

    def broken() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_BUG == 70
    assert "KeyError: 'a bug'" in capsys.readouterr().err
