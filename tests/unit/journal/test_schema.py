"""Journals written by older versions stay readable; those of newer ones, and other programs' files, are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sentinel.errors import JournalError
from sentinel.journal.schema import APPLICATION_ID, MIGRATIONS
from sentinel.journal.store import Journal
from sentinel.model.facts import ActionDecided, Held

# A file as schema 1 wrote it. Frozen: whatever the schema becomes, this must open and read the same.
VERSION_1 = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 1;
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            at_s REAL NOT NULL,
            epoch INTEGER NOT NULL,
            kind TEXT NOT NULL,
            body TEXT NOT NULL);
INSERT INTO meta VALUES ('epoch', 4);
INSERT INTO facts VALUES (1, 1000.25, 3, 'Held', '{{"reason":"waiting"}}');
INSERT INTO facts VALUES (2, 1001.5, 4, 'ActionDecided', '{{"action":{{"type":"KillAttempt","key":"k-1","attempt":2}}}}');
"""

# What a next step may look like: a new column that is filled from what is there.
NEXT_STEP = ("ALTER TABLE facts ADD COLUMN attempt INTEGER", "UPDATE facts SET attempt = json_extract(body, '$.action.attempt')")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sentinel.db"


def write(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()


def read(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(sql).fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_schema_1_is_read(path: Path, read_only: bool) -> None:
    write(path, VERSION_1)
    with Journal.open(path, read_only) as journal:
        entries = list(journal.read_entries())
        assert [(entry.seq, entry.at_s, entry.epoch) for entry in entries] == [(1, 1000.25, 3), (2, 1001.5, 4)]
        assert entries[0].fact == Held("waiting")
        assert isinstance(entries[1].fact, ActionDecided)
        assert journal.epoch() == 4


def test_a_file_of_schema_1_is_written_on(path: Path) -> None:
    write(path, VERSION_1)
    with Journal.open(path) as journal:
        assert journal.append(1002.0, [Held("on")], journal.claim_epoch())[0].seq == 3


def test_a_file_killed_before_its_first_step_becomes_a_journal(path: Path) -> None:
    write(path, "PRAGMA journal_mode=WAL")  # version 0: SQLite's header and nothing else
    assert path.stat().st_size > 0
    with pytest.raises(JournalError, match="still empty"):
        Journal.open(path, read_only=True)
    with Journal.open(path) as journal:
        journal.append(1.0, [Held("x")], journal.claim_epoch())
    assert read(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert read(path, "PRAGMA application_id") == [(APPLICATION_ID,)]


def test_an_older_file_gets_the_steps_it_lacks_and_keeps_its_facts(path: Path) -> None:
    write(path, VERSION_1)
    longer = (*MIGRATIONS, NEXT_STEP)
    with Journal.open(path, read_only=True, migrations=longer) as journal:
        assert [entry.seq for entry in journal.read_entries()] == [1, 2], "whoever only looks can read it before"
    with Journal.open(path, migrations=longer) as journal:
        assert [entry.seq for entry in journal.read_entries()] == [1, 2]
    assert read(path, "SELECT attempt FROM facts") == [(None,), (2,)]
    assert read(path, "PRAGMA user_version") == [(len(longer),)]
    with Journal.open(path, migrations=longer) as journal:  # and only once
        assert journal.epoch() == 4


def test_a_step_that_fails_changes_nothing(path: Path) -> None:
    write(path, VERSION_1)
    with pytest.raises(JournalError, match="cannot open the journal"):
        Journal.open(path, migrations=(*MIGRATIONS, ("DELETE FROM facts", "INSERT INTO nowhere VALUES (1)")))
    with Journal.open(path) as journal:
        assert len(list(journal.read_entries())) == 2


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_a_newer_schema_is_refused_and_left_alone(path: Path, read_only: bool) -> None:
    write(path, VERSION_1 + "PRAGMA user_version = 99;")
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"newer sentinel \(schema 99, this one knows up to 2\); install"):
        Journal.open(path, read_only)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    write(path, "CREATE TABLE cookies (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another program's database"):
        Journal.open(path)
    assert path.read_bytes() == before
