"""Which runs are shown and how often they are looked at: as often as somebody asks, and no more."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sentinel.report.drawn import DrawnAttempt
from sentinel.report.following import FollowedRun, RunSnapshot
from sentinel.run_files.stream import PIECE_BYTES
from sentinel.web import runs as runs_module
from sentinel.web.answers import RefusedRequest
from sentinel.web.places import RUNS_MAX, find_runs
from sentinel.web.runs import ASKED_S, FORGET_S, IDLE_S, LIST_S, REFRESH_S, Runs
from sentinel.web.watched import ServedRun
from tests.fakes import ManualClock
from tests.integration.supervised import wait_for
from tests.unit.told_run import write_run, write_stream
from tests.unit.web.web_kit import append_told, supervised, write_told


class Stepped:
    """`Runs` without its thread: `turn` is what the thread does at one moment."""

    def __init__(self, *places: Path, own: Path | None = None) -> None:
        self.clock = ManualClock()
        self.runs = Runs(places, own, self.clock)
        self.runs._scan()
        self.runs._is_late = True  # nobody is there to wait for

    def __getitem__(self, name: str) -> ServedRun:
        return self.runs._runs[name]

    def turn(self, seconds: float = 0.0) -> float:
        """The pause after which the thread would go on; everything due is done before it."""
        self.clock.advance(seconds)
        while (pause := self.runs._step(self.clock.now_s())) == 0.0:
            pass
        return pause

    def refreshes(self, name: str) -> int:
        return self[name].refreshes


@contextmanager
def started(*places: Path, own: Path | None = None) -> Iterator[Runs]:
    runs = Runs(places, own)
    with closing(runs):
        runs.start()
        yield runs


def test_a_run_is_looked_at_each_second_while_somebody_asks_and_then_no_more(tmp_path: Path) -> None:
    write_told(tmp_path)
    stepped = Stepped(tmp_path)
    stepped.turn(100.0)
    assert stepped.refreshes("demo") == 0
    for _ in range(20):
        stepped.runs.find("demo")
        stepped.turn(REFRESH_S / 4)
    assert 4 <= stepped.refreshes("demo") <= 6
    for _ in range(200):
        stepped.turn(REFRESH_S)
    assert stepped.refreshes("demo") <= 6 + ASKED_S


def test_a_run_that_began_since_anybody_looked_is_found_by_the_first_who_asks(tmp_path: Path) -> None:
    """A page links to it: whoever follows the link does not look at the list first."""
    for ask in (lambda runs: runs.find("demo"), lambda runs: runs.all()[0]):
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        place.mkdir()
        with started(place) as runs:
            write_told(place)
            with runs._refreshed:
                runs._scanned_s = float("-inf")  # nobody has asked for hours
            assert ask(runs).name == "demo"


def test_names_that_are_none_cost_one_look_a_second_at_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = Stepped(tmp_path)
    asked: list[None] = []
    monkeypatch.setattr(stepped.runs, "_await_scan", lambda: asked.append(None))
    for _ in range(5):
        with pytest.raises(RefusedRequest):
            stepped.runs.find("nobody")
    assert asked == []
    stepped.clock.advance(REFRESH_S)
    with pytest.raises(RefusedRequest):
        stepped.runs.find("nobody")
    assert len(asked) == 1


def test_ten_who_ask_cost_one_look_and_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = Stepped(write_told(tmp_path))
    run = stepped.runs.find("demo")
    stepped.turn()
    made: list[object] = []
    for _ in range(10):
        stepped.runs.find("demo").document("key", lambda: made.append(1) or {})
        stepped.turn()
    assert (len(made), run.refreshes) == (1, 1)
    stepped.turn(REFRESH_S)
    run.document("key", lambda: made.append(1) or {})
    assert (len(made), run.refreshes) == (2, 2)


def test_the_list_looks_at_those_seldom_that_nobody_opens_and_never_at_those_that_cannot_change(tmp_path: Path) -> None:
    write_told(tmp_path, name="over")
    live = write_told(tmp_path, until=42, name="live")
    with supervised(live):
        stepped = Stepped(tmp_path)
        journals: list[str] = []
        really = FollowedRun.refresh
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FollowedRun, "refresh", lambda self: (journals.append(self.run_dir.name), really(self))[1])
            for _ in range(20):
                stepped.runs.all()
                stepped.turn(REFRESH_S)
    assert journals.count("over") <= 2, "the first refresh may leave a file of SQLite's behind"
    assert 20 / LIST_S - 1 <= journals.count("live") <= 20 / LIST_S + 1


def test_a_run_that_was_over_and_goes_on_is_seen_in_the_list(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=42)
    stepped = Stepped(tmp_path)
    stepped.runs.all()
    stepped.turn()
    append_told(run_dir, 42, 100)
    for _ in range(7):
        stepped.runs.all()
        stepped.turn(REFRESH_S)
    (run,) = stepped.runs.all()
    assert run.seen().seq == 38


def test_the_supervisors_own_run_is_kept_up_without_anybody_and_slowly(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=100)
    write_stream(run_dir, 3, range(351, 20_000))
    stepped = Stepped(tmp_path, own=run_dir)
    assert stepped.turn() == runs_module.IDLE_PAUSE_S
    stepped.runs.find("demo")
    assert stepped.turn() == runs_module.PAUSE_S, "somebody waits for it"
    for _ in range(200):
        if stepped.turn() > runs_module.IDLE_PAUSE_S:
            break
    with stepped["demo"].drawings() as (drawn, _):
        assert drawn[3].newest_step == 19_999
    looks = stepped.refreshes("demo")
    stepped.clock.advance(ASKED_S)
    for _ in range(10):
        stepped.turn(IDLE_S)
    assert stepped.refreshes("demo") == looks + 10


def test_a_long_stream_is_read_in_small_pieces_and_its_newest_line_is_known_at_once(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=100)
    write_stream(run_dir, 3, range(351, 40_000), loss=1.5)
    stepped = Stepped(tmp_path)
    run = stepped.runs.find("demo")
    stepped.turn()
    assert (run.seen().step, run.seen().newest["loss"]) == (39_999, 1.5)
    with run.drawings() as (drawn, _):
        reached = drawn[3].newest_step or 0
        assert reached < 3 * PIECE_BYTES / 30, "two pieces of some thousand lines at the most"
    pauses = 0
    while stepped.turn() == runs_module.ALONE_PAUSE_S:
        pauses += 1
    assert pauses > 3
    with run.drawings() as (drawn, _):
        assert {number: one.newest_step for number, one in drawn.items()} == {1: 132, 2: 384, 3: 39_999}


def test_curves_that_nobody_asks_for_are_forgotten_and_come_back(tmp_path: Path) -> None:
    stepped = Stepped(write_told(tmp_path))
    run = stepped.runs.find("demo")
    stepped.turn()
    with run.drawings() as (_, before):
        pass
    stepped.turn(FORGET_S + 1)
    assert not run.is_drawn
    stepped.runs.find("demo")
    stepped.turn()
    with run.drawings() as (drawn, after):
        assert drawn[3].newest_step == 600
    assert after != before, "a cursor into what was forgotten is answered with everything"


def test_a_stream_that_was_written_anew_is_another_drawing(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=42)
    stepped = Stepped(run_dir)
    run = stepped.runs.find("demo")
    stepped.turn()
    with run.drawings() as (_, before):
        pass
    write_stream(run_dir, 2, [101, 102])
    stepped.runs.find("demo")
    stepped.turn(REFRESH_S)
    with run.drawings() as (drawn, after):
        assert drawn[2].newest_step == 102
    assert after != before


def test_the_newest_of_many_runs_are_shown(tmp_path: Path) -> None:
    for number in range(RUNS_MAX + 6):
        (tmp_path / f"run-{number:02d}").mkdir()
        journal = tmp_path / f"run-{number:02d}" / "sentinel.db"
        journal.touch()
        os.utime(journal, (1000 + number, 1000 + number))
    (tmp_path / "run-00" / "lease.json").touch()  # supervised just now, by whoever wrote it
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file").touch()
    shown, others = find_runs(tmp_path)
    found = [path.name for path in shown]
    assert found == ["run-00", *(f"run-{number:02d}" for number in range(7, RUNS_MAX + 6))]
    assert others == 6
    assert find_runs(tmp_path / "run-03") == ([tmp_path / "run-03"], 0)
    assert find_runs(tmp_path / "file") == find_runs(tmp_path / "none") == ([], 0)
    with_one, others = find_runs(tmp_path, ["run-03", "no-run", "none", "x" * 300])
    assert (len(with_one), others, tmp_path / "run-03" in with_one) == (RUNS_MAX + 1, 5, True)


def test_a_run_that_the_list_has_no_room_for_is_shown_to_who_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link in a page outlives the sixty-four runs that came after."""
    monkeypatch.setattr("sentinel.web.places.RUNS_MAX", 1)
    old = write_told(tmp_path, name="failed-long-ago")
    for name in ("sentinel.db", "lease.json"):
        os.utime(old / name, (1000, 1000))
    write_told(tmp_path, name="young")
    with started(tmp_path) as runs:
        assert wait_for("the young one", runs.all)[0].name == "young"
        assert (len(runs.all()), runs.left_out) == (1, 1)
        runs._scanned_s = float("-inf")
        assert runs.find("failed-long-ago").run_dir == old
        assert [run.name for run in runs.all()] == ["failed-long-ago", "young"]
    with started(tmp_path) as runs:
        runs._scanned_s = float("-inf")
        assert {run.name for run in runs.all("failed-long-ago")} == {"failed-long-ago", "young"}
        assert runs.left_out == 0


@pytest.mark.parametrize("name", ["", ".", "..", "../../etc", "a/b", "a\0b", "\ud800", "x" * 5000])
def test_no_name_leads_out_of_the_place_or_ends_the_looking(tmp_path: Path, name: str) -> None:
    write_told(tmp_path / "runs")
    write_told(tmp_path, name="outside")
    with started(tmp_path / "runs") as runs:
        runs._scanned_s = float("-inf")
        with pytest.raises(RefusedRequest):
            runs.find(name)
        runs._scan()
        assert set(runs._runs) == {"demo"}


def test_runs_of_the_same_name_are_told_apart_and_keep_their_names(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        write_told(tmp_path / folder, until=42)
    stepped = Stepped(tmp_path / "a", tmp_path / "b", tmp_path / "c" / "demo", tmp_path / "c")
    places = {name: run.run_dir.parent.name for name, run in stepped.runs._runs.items()}
    assert places == {"demo": "a", "demo~2": "b", "demo~3": "c"}
    (tmp_path / "a" / "demo").rename(tmp_path / "a" / "another")
    stepped.runs._scan()
    assert {name: run.run_dir.parent.name for name, run in stepped.runs._runs.items()} == {
        "another": "a",
        "demo~2": "b",
        "demo~3": "c",
    }


def test_a_directory_that_became_a_run_is_found(tmp_path: Path) -> None:
    with started(tmp_path) as runs:
        assert runs.all() == []
        write_run(tmp_path / "new", until=42)
        runs._scanned_s = float("-inf")
        assert wait_for("the run", runs.all)[0].name == "new"


def test_a_disk_that_hangs_costs_the_first_who_asks_a_second_and_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_told(tmp_path)
    hangs, goes_on = threading.Event(), threading.Event()
    really = FollowedRun.refresh

    def refresh(self: FollowedRun) -> RunSnapshot:
        hangs.set()
        assert goes_on.wait(20.0)
        return really(self)

    monkeypatch.setattr(FollowedRun, "refresh", refresh)
    monkeypatch.setattr(runs_module, "FRESH_S", 0.05)
    try:
        with started(tmp_path) as runs:
            run = runs.find("demo")
            assert hangs.wait(20.0)
            waited: list[Any] = []
            monkeypatch.setattr(runs._refreshed, "wait_for", lambda *args: waited.append(args))
            for _ in range(5):
                assert runs.find("demo") is run
            assert waited == []
            with pytest.raises(RefusedRequest, match="is being read"):
                run.seen()
            goes_on.set()
            wait_for("its end", lambda: run.snapshot)
    finally:
        goes_on.set()


def test_folders_that_hang_cost_the_first_who_asks_a_second_and_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever follows links to runs that are none must not take all threads of the server."""
    goes_on = threading.Event()
    with started(tmp_path) as runs:
        monkeypatch.setattr(runs_module, "find_runs", lambda *_: goes_on.wait(20.0) and ([], 0))
        monkeypatch.setattr(runs_module, "FRESH_S", 0.05)
        runs._scanned_s = float("-inf")
        really, waited = runs._refreshed.wait_for, list[float | None]()
        monkeypatch.setattr(runs._refreshed, "wait_for", lambda *args: waited.append(args[1]) or really(*args))
        try:
            for _ in range(5):
                with pytest.raises(RefusedRequest):
                    runs.find("nobody")
            assert waited == [0.05]
        finally:
            goes_on.set()
        assert wait_for("its end", lambda: not runs._is_late)


def test_looks_at_the_folders_that_take_long_leave_the_runs_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = Stepped(tmp_path)
    stepped.clock.advance(REFRESH_S)
    stepped.runs._is_scan_wanted = True
    assert stepped.runs._is_scan_due(stepped.clock.now_s())
    monkeypatch.setattr(runs_module, "find_runs", lambda *_: stepped.clock.advance(3 * REFRESH_S) or ([], 0))
    stepped.runs._scan()
    stepped.runs._is_scan_wanted = True
    assert not stepped.runs._is_scan_due(stepped.clock.now_s())
    stepped.clock.advance(REFRESH_S)
    assert stepped.runs._is_scan_due(stepped.clock.now_s())


def test_a_bug_in_a_look_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_told(tmp_path)
    monkeypatch.setattr(runs_module, "IDLE_S", 0.01)
    advance = DrawnAttempt.advance
    monkeypatch.setattr(DrawnAttempt, "advance", lambda self, is_over: 1 / 0)
    with started(tmp_path) as runs:
        runs.find("demo")
        monkeypatch.setattr(DrawnAttempt, "advance", advance)
        assert wait_for("a refresh", lambda: runs.find("demo").snapshot)
    assert capsys.readouterr().err.startswith("the page in the browser: ZeroDivisionError")


def test_a_run_whose_looks_fail_for_ever_takes_no_other_ones_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = write_told(tmp_path, name="a bad one")
    write_told(tmp_path, name="good")
    really = FollowedRun.refresh
    monkeypatch.setattr(FollowedRun, "refresh", lambda self: 1 / 0 if self.run_dir == bad else really(self))
    with started(tmp_path) as runs:
        runs.find("a bad one")
        assert wait_for("a refresh", lambda: runs.find("good").snapshot)
        run = runs.find("a bad one")
        wait_for("its refresh", lambda: run.refreshes)
        with pytest.raises(RefusedRequest, match="a bad one: an error of the page itself: ZeroDivisionError"):
            run.seen()


def test_a_place_that_cannot_be_read_holds_no_runs_and_ends_nothing(tmp_path: Path) -> None:
    unreadable = tmp_path / ("x" * 300)  # no name of a file: no error that `is_file` takes for "not there"
    assert find_runs(unreadable) == ([], 0)
    write_told(tmp_path)
    with started(unreadable, tmp_path) as runs:
        assert wait_for("the other place's runs", runs.all)[0].name == "demo"


def test_documents_of_one_look_are_kept_up_to_some_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.web.watched.DOCUMENT_BYTES_KEPT", 100)
    run = ServedRun("demo", write_told(tmp_path))
    for cursor in range(20):
        assert len(run.document(cursor, lambda: "x" * 28)) == 30
    assert len(run._documents) == 3
