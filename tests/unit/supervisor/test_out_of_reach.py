"""A run directory that goes away is waited for; nothing is made in its place, and another one is not taken for it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from sentinel.client.atomic_file import never_make, write_atomically
from sentinel.errors import JournalBlocked, JournalError, LostHistory, OutOfReach, WatchLost
from sentinel.journal.reach import raised_within
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.journal.trouble import explained_errors
from sentinel.model.facts import Noted
from sentinel.supervisor.journal_outage import PAGE_AFTER_S, RETRY_S, JournalOutage
from sentinel.supervisor.lost_journal import JournalPages
from sentinel.supervisor.stop_signals import StopSignals
from tests.loopback import HttpServer
from tests.unit.journal.test_store_trouble import drop_rights, without_rights
from tests.unit.supervisor.test_lost_journal import paging_to


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> StopSignals:
    """Which waits for nobody."""
    signals = StopSignals()
    monkeypatch.setattr(signals.event, "wait", lambda timeout_s: False)
    return signals


def a_run(folder: Path) -> Path:
    run_dir = folder / "parent" / "run"
    run_dir.mkdir(parents=True)
    (run_dir / "run.json").write_text("{}")
    return run_dir


def test_a_journal_under_a_parent_that_was_moved_away_is_blocked_and_takes_facts_when_it_is_back(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    with Journal.open(run_dir / "sentinel.db") as journal:
        epoch = journal.claim_epoch()
        journal.append(1.0, [Noted("a", "one")], epoch)
        run_dir.parent.rename(tmp_path / "away")
        with pytest.raises(OutOfReach, match=r"parent/run: the run directory cannot be reached: No such file or directory"):
            journal.append(2.0, [Noted("a", "two")], epoch)
        (tmp_path / "away").rename(run_dir.parent)
        journal.append(3.0, [Noted("a", "three")], epoch)
        (run_dir / "sentinel.db").unlink()
        with pytest.raises(JournalError) as gone:
            journal.append(4.0, [Noted("a", "four")], epoch)
    assert not isinstance(gone.value, JournalBlocked), "the file alone is gone: nobody brings that back by waiting"


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_journal_that_this_user_may_not_reach_for_a_while_is_blocked(mode: str) -> None:
    with without_rights() as folder:
        run_dir = a_run(folder)
        for each in (run_dir.parent, run_dir) if os.geteuid() == 0 else ():
            os.chown(each, 65534, -1)
        drop_rights(folder)
        with Journal.open(run_dir / "sentinel.db", mode=mode) as journal:  # type: ignore[arg-type]
            epoch = journal.claim_epoch()
            run_dir.parent.chmod(0)
            try:
                with pytest.raises(OutOfReach, match="Permission denied"):
                    journal.append(2.0, [Noted("a", "two")], epoch)
            finally:
                run_dir.parent.chmod(0o755)
            journal.append(3.0, [Noted("a", "three")], epoch)


def test_a_directory_that_is_back_before_the_second_look_was_away_all_the_same(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / "sentinel.db").touch()
    for number in (errno.ENOENT, errno.EACCES):
        with pytest.raises(OutOfReach), explained_errors(run_dir / "sentinel.db", "append"):
            raise OSError(number, "as it was a moment ago")


def test_nothing_is_made_in_the_place_of_a_run_directory_that_went_away(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    never_make(run_dir)
    write_atomically(run_dir / "incidents" / "0000" / "page.json", b"1")
    run_dir.parent.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match="not made anew"):
        write_atomically(run_dir / "incidents" / "0000" / "page.json", b"2")
    assert not run_dir.parent.exists()
    (tmp_path / "away").rename(run_dir.parent)
    write_atomically(run_dir / "incidents" / "0001" / "page.json", b"2")


def test_the_page_after_a_minute_says_what_cannot_be_reached_and_supervision_waits_on(
    tmp_path: Path, stops: StopSignals
) -> None:
    run_dir = a_run(tmp_path)
    with HttpServer() as one:
        outage = JournalOutage(run_dir, stops, pages=JournalPages(run_dir, paging_to(one.url), run="lm-7b"))
        outage.begin()
        run_dir.parent.rename(tmp_path / "away")
        for _ in range(1000 + round(PAGE_AFTER_S / RETRY_S)):
            with pytest.raises(OutOfReach) as away:
                outage.refuse_another_run()
            outage.wait_out(away.value, 1.0)
        assert not run_dir.parent.exists()
        (tmp_path / "away").rename(run_dir.parent)
        (run_dir / "sentinel.db").touch()
        outage.refuse_another_run()
        outage.begin(2.0)
        pages = [got.json for got in one.all()]
    assert [(page["stage"], page["run"]) for page in pages] == [("trigger", "lm-7b"), ("resolve", "lm-7b")]
    assert "the run directory cannot be reached" in pages[0]["title"]
    assert f"{run_dir}: the run directory cannot be reached: No such file or directory" in pages[0]["text"]
    assert pages[0]["dedup_key"] == pages[1]["dedup_key"]


def test_another_error_at_that_time_is_waited_out_too_and_a_stop_is_obeyed(
    tmp_path: Path, stops: StopSignals
) -> None:
    run_dir = a_run(tmp_path)
    denied = PermissionError(errno.EACCES, "Permission denied", str(run_dir / "run.json"))
    outage = JournalOutage(run_dir, stops)
    with pytest.raises(PermissionError):
        outage.judge(denied)  # nothing was begun
    outage.begin()
    outage.judge(denied)
    with pytest.raises(FileNotFoundError):
        outage.judge(FileNotFoundError(errno.ENOENT, "No such file", str(run_dir / "x")))  # the directory is there: our mistake
    with pytest.raises(WatchLost):
        outage.judge(LostHistory("its journal is not whole", ("a",)))
    shutil.rmtree(run_dir)
    run_dir.mkdir()  # the folder under a mount that went away
    outage.judge(LostHistory("its journal is gone", ("a",)))
    with pytest.raises(OutOfReach, match="another directory lies under its name"):
        outage.refuse_another_run()
    stops.names.append(signal.SIGTERM.name)
    with pytest.raises(WatchLost, match="trains on unwatched"):
        outage.judge(denied)
    assert raised_within(run_dir, PermissionError(errno.EACCES, "Permission denied", "/elsewhere")) is None


def test_an_older_copy_of_the_run_that_was_put_in_its_place_is_refused(tmp_path: Path) -> None:
    run_dir, outage = a_run(tmp_path), JournalOutage(tmp_path / "parent" / "run", StopSignals())
    with take_run(run_dir) as session:
        session.journal.append(1.0, [Noted("a", "one")], session.epoch)
    shutil.copytree(run_dir, tmp_path / "old")
    with take_run(run_dir) as session:
        session.journal.append(2.0, [Noted("a", "two")], session.epoch)
        outage.begin(0.0, session.journal)
    outage.refuse_another_run()
    with take_run(run_dir) as session:
        session.journal.append(3.0, [Noted("a", "three")], session.epoch)
    outage.refuse_another_run()  # it went on, under whoever took it
    shutil.rmtree(run_dir)
    shutil.copytree(tmp_path / "old", run_dir)
    with pytest.raises(LostHistory, match="this supervisor wrote 2 entries, and the journal holds 1"):
        outage.refuse_another_run()
    with take_run(run_dir) as session:
        session.journal.append(2.0, [Noted("a", "another")], session.epoch)
    with pytest.raises(LostHistory, match="entry 2 is not the one that this supervisor wrote"):
        outage.refuse_another_run()
