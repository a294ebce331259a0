"""A supervisor whose loop stands still pages a person, once, and takes it back when it goes on."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sentinel.supervisor import loop_watch
from sentinel.supervisor.loop_watch import STUCK_AFTER_S, LoopWatch, page_about_loop
from sentinel.supervisor.systemd import Notifier
from tests.hanging_folder import HangingFolder, why_not
from tests.loopback import HttpServer
from tests.unit.supervisor.test_lost_journal import paging_to


class Told(list[tuple[str, str]]):
    def __call__(self, stage: str, text: str) -> None:
        self.append((stage, text))


def test_a_loop_that_turns_is_no_news() -> None:
    watch = LoopWatch(told := Told())
    for _ in range(3 * STUCK_AFTER_S):
        watch.turned()
        watch.look()
    assert told == []


def test_it_is_told_once_that_it_stands_and_once_that_it_goes_on() -> None:
    watch = LoopWatch(told := Told())
    watch.turned()
    for _ in range(STUCK_AFTER_S):
        watch.look()
    assert told == []  # the first look saw a turn
    for _ in range(100):
        watch.look()
    assert [stage for stage, _ in told] == ["trigger"]
    assert told[0][1].startswith(f"The supervisor has stood still for {STUCK_AFTER_S} s")
    watch.turned()
    watch.look()
    watch.look()
    assert told[1:] == [("resolve", "The supervisor goes on. It stood still for 2 min 39 s.")]


def test_a_loop_that_is_not_blocked_accuses_no_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with too much to do it waits for a processor."""

    def page() -> str:
        watch = LoopWatch(told := Told())
        for _ in range(STUCK_AFTER_S):
            watch.look()
        return told[0][1]

    monkeypatch.setattr(loop_watch.os, "getloadavg", lambda: (51.7, 1.0, 1.0))
    assert "It is not blocked: it computes, or waits for a processor (load 52, " in page(), "this thread runs, for it asks"
    monkeypatch.setattr(loop_watch, "is_thread_runnable", lambda _: False)
    assert page().endswith("the filesystem of the run directory does not answer.")


def test_a_short_stand_is_no_news() -> None:
    watch = LoopWatch(told := Told())
    for _ in range(10):
        for _ in range(STUCK_AFTER_S - 1):
            watch.look()
        watch.turned()
        watch.look()
    assert told == []


def test_whoever_types_a_stop_is_not_paged() -> None:
    watch = LoopWatch(None)
    for _ in range(3 * STUCK_AFTER_S):
        watch.look()


def test_every_sign_of_life_that_systemd_gets_counts_whether_it_listens_or_not() -> None:
    calls: list[int] = []
    notifier = Notifier("", lambda: calls.append(1))
    notifier.alive(0.0, str)
    notifier.alive(0.1, str)
    notifier.waiting("for the disk")
    assert len(calls) == 3


@pytest.mark.skipif(bool(why_not()), reason=f"no filesystem that hangs: {why_not()}")
def test_a_loop_in_a_read_that_hangs_is_paged_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's own thread waits in the kernel for a lease that its filesystem does not give."""
    from sentinel.journal.lease import read_lease

    monkeypatch.setattr(loop_watch, "STUCK_AFTER_S", 3)
    monkeypatch.setattr(loop_watch, "LOOK_EVERY_S", 0.05)
    said: list[str] = []
    with HttpServer() as server, HangingFolder(tmp_path / "run", {"lease.json": b"{}"}) as folder:
        folder.hang()
        send = page_about_loop(folder.path, "gpt-7", paging_to(server.url), lambda: 1.0, said.append)

        def send_and_go_on(stage: str, text: str) -> None:
            send(stage, text)
            folder.go_on()

        ended = threading.Event()

        def run() -> None:
            with LoopWatch(send_and_go_on) as watch:
                read_lease(folder.path)
                while not ended.is_set():
                    watch.turned()

        loop = threading.Thread(target=run)
        loop.start()
        pages = [server.next().json for _ in range(2)]
        ended.set()
        loop.join()
    assert [page["stage"] for page in pages] == ["trigger", "resolve"]
    assert {page["dedup_key"] for page in pages} == {"sentinel/gpt-7/0/stuck"}
    assert " in regular (client/regular_file.py:" in pages[0]["text"]
    assert "kernel: " in pages[0]["text"]


STARTS_A_PROGRAM = """
import sys, threading
from pathlib import Path
from sentinel.supervisor.loop_watch import LoopWatch
from sentinel.telemetry.helper_process import HelperProcess
from tests.hanging_folder import HangingFolder

with LoopWatch(None), HangingFolder(Path(sys.argv[1]), {"sentinel.db": b""}) as folder:
    with open(folder.path / "sentinel.db", "rb"):
        folder.hang()
        starts = threading.Thread(target=HelperProcess, args=(["true"], {}))
        starts.start()
        starts.join(0.5)  # not for its end: until it waits
        print("held up" if starts.is_alive() else "nothing hung", flush=True)
        folder.go_on()
        starts.join()
"""


@pytest.mark.skipif(bool(why_not()), reason=f"no filesystem that hangs: {why_not()}")
def test_a_thread_that_starts_a_program_while_a_file_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """The closing of the file does wait. In a process of its own, which is ended where all of it stands still."""
    done = subprocess.run(
        [sys.executable, "-c", STARTS_A_PROGRAM, tmp_path / "nfs"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "held up\n", done.stderr
