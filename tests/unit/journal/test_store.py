"""The journal keeps what it acknowledged, in order, for one writer at a time, and explains itself when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from sentinel.errors import Fenced, JournalError
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry, Held, Noted, StepsLost

BOTH_MODES = pytest.mark.parametrize("mode", ["wal", "delete"])
Mode = Literal["wal", "delete"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sentinel.db"


def pragma(journal: Journal, name: str) -> object:
    return journal._connection.execute(f"PRAGMA {name}").fetchone()[0]


@BOTH_MODES
def test_entries_come_back_in_order_with_number_time_and_epoch(path: Path, mode: Mode) -> None:
    with Journal.open(path, mode=mode) as journal:
        epoch = journal.claim_epoch()
        first = journal.append(100.5, [Held("one"), StepsLost(1, 7)], epoch)
        second = journal.append(101, [Noted("a", "b")], epoch)
        assert first == (Entry(1, 100.5, 1, Held("one")), Entry(2, 100.5, 1, StepsLost(1, 7)))
        assert tuple(journal.read_entries()) == first + second
    with Journal.open(path) as again:
        assert tuple(again.read_entries()) == first + second
        assert tuple(again.read_entries(after_seq=2)) == second
        assert again.last_at_s() == 101.0
        assert again.epoch() == 1


def test_a_new_journal_is_empty_at_epoch_zero(path: Path) -> None:
    with Journal.open(path) as journal:
        assert (list(journal.read_entries()), journal.last_at_s(), journal.epoch()) == ([], 0.0, 0)
        assert journal.append(1.0, [], 0) == ()


def test_more_entries_than_one_page_are_all_read(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append(1.0, [StepsLost(1, n) for n in range(5000)], 0)
        assert [entry.seq for entry in journal.read_entries()] == list(range(1, 5001))


def test_a_commit_is_synced_to_the_disk_before_append_returns(path: Path) -> None:
    with Journal.open(path) as journal:
        assert (pragma(journal, "journal_mode"), pragma(journal, "synchronous")) == ("wal", 2)  # FULL
    with Journal.open(path, mode="delete") as journal:
        assert (pragma(journal, "journal_mode"), pragma(journal, "synchronous")) == ("delete", 3)  # EXTRA


def test_a_filesystem_that_may_be_remote_gets_no_write_ahead_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.journal.store.is_local", lambda folder: False)
    with Journal.open(path) as journal:
        assert pragma(journal, "journal_mode") == "delete"


def test_a_supervisor_that_was_taken_over_can_write_no_more(path: Path) -> None:
    with Journal.open(path) as old, Journal.open(path) as new:
        mine = old.claim_epoch()
        old.append(1.0, [Held("mine")], mine)
        theirs = new.claim_epoch()
        assert theirs == mine + 1
        with pytest.raises(Fenced, match="epoch 2 took this run over from epoch 1"):
            old.append(2.0, [Held("late"), Held("later")], mine)
        new.append(3.0, [Held("theirs")], theirs)
        assert [entry.fact for entry in old.read_entries()] == [Held("mine"), Held("theirs")]


def test_a_journal_deleted_or_replaced_under_its_writer_is_noticed(path: Path) -> None:
    path.with_name("run.json").touch()  # without it another directory lies there
    with Journal.open(path) as journal:
        path.rename(path.with_name("moved"))
        with pytest.raises(JournalError, match=r"cannot append .*No such file"):
            journal.append(1.0, [Held("x")], 0)
        Journal.open(path, mode="delete").close()
        with pytest.raises(JournalError, match="replaced by another file"):
            journal.append(1.0, [Held("x")], 0)


def test_an_epoch_that_was_never_claimed_is_a_bug(path: Path) -> None:
    with Journal.open(path) as journal, pytest.raises(AssertionError, match="never claimed"):
        journal.append(1.0, [Held("x")], 5)


def test_a_batch_with_one_bad_fact_writes_nothing(path: Path) -> None:
    with Journal.open(path) as journal:
        with pytest.raises(TypeError):
            journal.append(1.0, [Held("good"), Held(7)], 0)  # type: ignore[arg-type]
        assert list(journal.read_entries()) == []


@BOTH_MODES
def test_a_reader_sees_what_is_committed_while_a_batch_is_being_written(path: Path, mode: Mode) -> None:
    with Journal.open(path, mode=mode) as writer, Journal.open(path, read_only=True, busy_s=0) as reader:
        writer.append(1.0, [Held("done")], 0)
        with writer._transaction("test") as connection:
            connection.execute("INSERT INTO facts (at_s, epoch, kind, body) VALUES (2, 0, 'Held', '{}')")
            assert [entry.fact for entry in reader.read_entries()] == [Held("done")]
            assert reader.last_at_s() == 1.0
            connection.execute("DELETE FROM facts WHERE at_s = 2")


def test_a_reader_half_way_through_does_not_hold_up_the_writer(path: Path) -> None:
    with Journal.open(path, mode="delete", busy_s=0) as writer, Journal.open(path, read_only=True) as reader:
        writer.append(1.0, [StepsLost(1, n) for n in range(3000)], 0)
        entries = reader.read_entries()
        next(entries)
        writer.append(2.0, [Held("new")], 0)
        assert len(list(entries)) == 3000


def test_a_reader_cannot_write(path: Path) -> None:
    Journal.open(path).close()
    with Journal.open(path, read_only=True) as reader, pytest.raises(AssertionError, match="read-only"):
        reader.append(1.0, [Held("x")], 0)
