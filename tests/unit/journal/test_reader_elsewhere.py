"""Reading a journal that is written on another machine: what a client holds of a moment ago is no damage."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sentinel.client.run_layout import LEASE_NAME
from sentinel.errors import JournalError
from sentinel.journal import session, store
from sentinel.journal.reader_elsewhere import TIMES, ReaderElsewhere, forget_pages
from sentinel.journal.session import CACHES_S, wait_for_caches
from sentinel.journal.store import Journal
from sentinel.model.facts import Noted
from tests.fakes import ManualClock

CODES = [sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY_ROLLBACK]


class Old(sqlite3.Connection):
    """Shows what it held of the file so many times."""

    errors: ClassVar[list[int]] = []

    def execute(self, *words: Any) -> Any:
        if self.errors and words[0].startswith("SELECT"):
            error = sqlite3.OperationalError("old")
            error.sqlite_errorcode = self.errors.pop()
            raise error
        return super().execute(*words)


class Reader(ReaderElsewhere, Old):
    every_s = 0.0


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sentinel.db"
    with Journal.open(path) as written:
        written.append(1.0, [Noted("it", str(number)) for number in range(5)], written.claim_epoch())
    monkeypatch.setattr(store, "is_local", lambda _: False)
    monkeypatch.setattr(store, "ReaderElsewhere", Reader)
    monkeypatch.setattr(Old, "errors", [])
    return path


def read(path: Path) -> list[int]:
    with Journal.open(path, read_only=True) as found:
        return [entry.seq for entry in found.read_entries()]


@pytest.mark.parametrize("code", CODES)
def test_an_error_of_a_moment_is_none(journal: Path, code: int) -> None:
    Old.errors[:] = [code] * (TIMES - 1)
    assert read(journal) == [1, 2, 3, 4, 5]


def test_the_kernel_is_told_to_forget_the_file_and_no_handle_is_closed(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda handle, *_: told.append(handle))
    Old.errors[:] = [sqlite3.SQLITE_CORRUPT] * 2
    assert read(journal) == [1, 2, 3, 4, 5]
    assert len(told) == 2
    assert len(set(told)) == 1
    assert os.path.samestat(os.fstat(told[0]), journal.stat())


def test_a_lock_of_the_same_process_outlives_it(journal: Path) -> None:
    """A process loses all its locks on a file with the first handle of it that it closes."""
    writer = sqlite3.connect(journal, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    forget_pages(journal)
    forget_pages(journal)
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN EXCLUSIVE')"
    other = subprocess.run([sys.executable, "-c", code, str(journal)], capture_output=True, text=True, check=False)
    writer.close()
    assert "database is locked" in other.stderr


def test_what_stays_is_told(journal: Path) -> None:
    Old.errors[:] = [sqlite3.SQLITE_CORRUPT] * 3 * TIMES
    with pytest.raises(JournalError, match="damaged"):
        read(journal)


def test_no_other_error_is_asked_again(journal: Path) -> None:
    Old.errors[:] = [sqlite3.SQLITE_PERM]
    with pytest.raises(JournalError):
        read(journal)
    assert Old.errors == []


def test_an_old_page_beside_newer_ones_is_read_again(tmp_path: Path) -> None:
    """Rows that are missing, or stand twice."""
    answers = [[(1,), (2,), (4,)], [(1,), (2,), (2,), (3,)], [(1,), (2,), (3,)]]

    class Pages(sqlite3.Connection):
        def execute(self, *words: Any) -> Any:
            return self if words[0].startswith("PRAGMA") else super().execute("SELECT 1")

        def fetchall(self) -> list[Any]:
            return []

    class PagesReader(ReaderElsewhere, Pages):
        every_s = 0.0

        def execute(self, *words: Any) -> Any:
            found = super().execute(*words)
            found[:] = answers.pop(0) if words[0] == "rows" else []
            return found

    reader = PagesReader(tmp_path / "x.db")
    assert reader.read_row_after_row("rows", 0, 10) == [(1,), (2,), (3,)]
    answers[:] = [[(1,), (3,)]] * TIMES
    assert reader.read_row_after_row("rows", 0, 10) == [(1,), (3,)], "what stays so is handed on, and `verify` tells"


LEASE = '{"epoch": 1, "host": "n1", "pid": 1, "create_time": 1.0, "boot_id": "another", "attempt": 1}'


@pytest.mark.parametrize(("lease", "is_local", "waited_s"), [(LEASE, False, CACHES_S), (LEASE, True, 0.0), (None, False, 0.0)])
def test_a_run_of_another_machine_is_taken_once_its_last_words_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease: str | None, is_local: bool, waited_s: float
) -> None:
    monkeypatch.setattr(session, "is_local", lambda _: is_local)
    if lease is not None:
        (tmp_path / LEASE_NAME).write_text(lease)
        assert session.read_lease(tmp_path) is not None
    clock = ManualClock()
    wait_for_caches(tmp_path, clock)
    assert sum(clock.waited) == waited_s
