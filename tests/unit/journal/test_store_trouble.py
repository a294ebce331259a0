"""What the journal does when the file, the disk or this user's rights are not what they should be."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from sentinel.errors import JournalError
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry, Held, Noted

BOTH_MODES = pytest.mark.parametrize("mode", ["wal", "delete"])
Mode = Literal["wal", "delete"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sentinel.db"


def spoil(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(sql)
    connection.close()


@contextmanager
def without_rights() -> Iterator[Path]:
    """A directory that this process may look into and not write to, also when the tests run as root."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    me = os.geteuid()
    try:
        yield folder
    finally:
        os.seteuid(me)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def drop_rights(folder: Path) -> None:
    for each in (folder, *folder.parents):
        if each == Path("/tmp"):
            break
        each.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


@pytest.mark.parametrize("name", ["sentinel.db", "sentinel.db-wal", "sentinel.db-shm", "sentinel.db-journal"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_fifo_under_one_of_its_names_is_refused_and_not_waited_for(path: Path, name: str, read_only: bool) -> None:
    Journal.open(path).close()
    path.with_name(name).unlink(missing_ok=True)
    os.mkfifo(path.with_name(name))
    with pytest.raises(JournalError, match=rf"{name}: is a FIFO, not a regular file.* sentinel journal salvage"):
        Journal.open(path, read_only=read_only)


def test_a_closed_journal_can_be_read_without_the_right_to_write() -> None:
    with without_rights() as folder:
        with Journal.open(folder / "sentinel.db") as journal:
            journal.append(1.0, [Held("x")], 0)
        (folder / "sentinel.db").chmod(0o444)
        drop_rights(folder)
        with Journal.open(folder / "sentinel.db", read_only=True) as reader:
            assert [entry.fact for entry in reader.read_entries()] == [Held("x")]


def test_a_live_journal_can_be_read_without_the_right_to_write() -> None:
    with without_rights() as folder, Journal.open(folder / "sentinel.db") as journal:
        journal.append(1.0, [Held("x")], 0)
        for file in folder.iterdir():
            file.chmod(0o444)
        drop_rights(folder)
        with Journal.open(folder / "sentinel.db", read_only=True) as reader:
            assert [entry.fact for entry in reader.read_entries()] == [Held("x")]


def test_a_journal_whose_writer_was_killed_can_be_read_without_the_right_to_write() -> None:
    with without_rights() as folder:
        with Journal.open(folder / "sentinel.db") as journal:
            journal.append(1.0, [Held("x")], 0)
            (folder / "left").mkdir()
            for name in ("sentinel.db", "sentinel.db-wal", "sentinel.db-shm"):
                shutil.copy(folder / name, folder / "left" / name)
                (folder / "left" / name).chmod(0o444)
        drop_rights(folder / "left")
        with Journal.open(folder / "left" / "sentinel.db", read_only=True) as reader:
            assert [entry.fact for entry in reader.read_entries()] == [Held("x")]


def test_a_directory_that_cannot_be_written_is_named() -> None:
    with without_rights() as folder:
        drop_rights(folder)
        with pytest.raises(JournalError, match=r"cannot open the journal.*check that the run directory exists") as told:
            Journal.open(folder / "sentinel.db")
        assert str(folder / "sentinel.db") in str(told.value)


def test_looking_at_a_directory_without_a_journal_says_so_and_creates_none(path: Path) -> None:
    with pytest.raises(JournalError, match=r"is .* the directory of a run"):
        Journal.open(path, read_only=True)
    assert not path.exists()


def test_a_journal_locked_by_another_program_is_named_with_the_remedy(path: Path) -> None:
    with Journal.open(path, busy_s=0.01) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match=r"sentinel\.db: cannot append .*locked.*fuser"):
            journal.append(1.0, [Held("x")], 0)
        other.execute("ROLLBACK")
        other.close()
        assert journal.append(1.0, [Held("x")], 0)[0].seq == 1


def fill(journal: Journal, acknowledged: list[Entry]) -> None:
    for _ in range(1000):
        acknowledged += journal.append(1.0, [Noted("filler", "x" * 3000)] * 3, 0)


@BOTH_MODES
def test_a_full_disk_is_named_and_loses_nothing_acknowledged(path: Path, mode: Mode) -> None:
    with Journal.open(path, mode=mode) as journal:
        pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
        journal._connection.execute(f"PRAGMA max_page_count={pages + 20}")
        acknowledged: list[Entry] = []
        with pytest.raises(JournalError, match=r"cannot append .*the disk is full; free space under"):
            fill(journal, acknowledged)
        assert acknowledged
        assert list(journal.read_entries()) == acknowledged
        journal._connection.execute("PRAGMA max_page_count=100000")
        assert journal.append(2.0, [Held("space again")], 0)


def test_a_file_that_may_not_grow_is_named_and_loses_nothing_acknowledged(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    acknowledged: list[Entry] = []
    with Journal.open(path) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(JournalError, match=r"sentinel\.db: cannot append"):
                fill(journal, acknowledged)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert acknowledged
    with Journal.open(path) as again:
        assert list(again.read_entries())[: len(acknowledged)] == acknowledged


@contextmanager
def no_room_for_a_new_file() -> Iterator[None]:
    """As on a disk that is full: what is there can be read, and no page more is to be had."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("left", [None, b""])
def test_the_journal_on_a_full_disk_can_still_be_looked_at(path: Path, left: bytes | None) -> None:
    """Then above all somebody wants to know how the run stands."""
    with Journal.open(path) as journal:
        entries = journal.append(1.0, [Held("the disk is full")], 0)
    if left is not None:
        path.with_name("sentinel.db-wal").write_bytes(left)
    with no_room_for_a_new_file(), Journal.open(path, read_only=True) as journal:
        assert tuple(journal.read_entries()) == entries


def test_what_stands_beside_the_journal_on_a_full_disk_is_not_passed_over(path: Path) -> None:
    """A supervisor that was killed left facts there: without them the run would look as it was before."""
    with Journal.open(path) as journal:
        journal.append(1.0, [Held("x")], 0)
        wal = path.with_name("sentinel.db-wal").read_bytes()
    assert wal
    path.with_name("sentinel.db-wal").write_bytes(wal)
    with no_room_for_a_new_file(), pytest.raises(JournalError, match=r"cannot open the journal .*the disk is full; free"):
        Journal.open(path, read_only=True)


def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    path.write_text("not a database, " * 100)
    for read_only in (False, True):
        with pytest.raises(JournalError, match=r"sentinel\.db: cannot open .*damaged.*\.recover"):
            Journal.open(path, read_only)
    assert path.read_text() == "not a database, " * 100


def test_a_damaged_page_is_found_when_the_run_is_taken_up(path: Path) -> None:
    with Journal.open(path, mode="delete") as journal:
        journal.append(1.0, [Noted("filler", "x" * 500)] * 100, 0)
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 6] = b"\xff" * 4096 * 4
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"damaged.*\.recover"):
        Journal.open(path)


@pytest.mark.parametrize("change", ["body = '{'", "body = x'00'", "kind = 7, body = x'00'", "at_s = 'noon'"])
def test_a_damaged_entry_is_named_by_its_number(path: Path, change: str) -> None:
    with Journal.open(path) as journal:
        journal.append(1.0, [Held("one"), Held("two"), Held("three")], 0)
    spoil(path, f"UPDATE facts SET {change} WHERE seq = 2")
    with Journal.open(path) as journal:
        entries = journal.read_entries()
        assert next(entries).fact == Held("one")
        with pytest.raises(JournalError, match=r"sentinel\.db: entry 2"):
            next(entries)


def test_a_missing_epoch_is_damage_not_a_fresh_start(path: Path) -> None:
    Journal.open(path).close()
    spoil(path, "DELETE FROM meta")
    with Journal.open(path) as journal, pytest.raises(JournalError, match="epoch is missing"):
        journal.claim_epoch()
