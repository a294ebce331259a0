"""The tables of sentinel.db, and how an older file becomes a newer one.

`MIGRATIONS[n]` leads from schema version n to n + 1; the version is SQLite's own `user_version`, so a step and its number
are committed together and a supervisor killed between two steps continues where it stopped. A step that has shipped is
never edited: append the next one. Version 0 is a file without tables (killed before its first step).

Since version 2 the entries are a chain: `digest` is SHA-256 of the digest before and the entry (`head.Chain`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sentinel.errors import JournalError
from sentinel.journal.head import Chain

APPLICATION_ID = 0x53454E54  # "SENT": tells our file from any other SQLite database

ROWS = "SELECT seq, at_s, epoch, kind, body FROM facts WHERE seq > ? ORDER BY seq"
READABLE = 1  # the oldest version whose entries are read as they are
CHAINED = 2  # the version from which on entries are chained, and journal.head stands beside the file

Migration = tuple[str | Callable[[sqlite3.Connection], None], ...]


def _chain_what_is_there(connection: sqlite3.Connection) -> None:
    chain = Chain()
    for row in connection.execute(ROWS, (0,)).fetchall():
        chain = chain.with_row(row)
        connection.execute("UPDATE facts SET digest = ? WHERE seq = ?", (chain.digest, chain.seq))


MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
        """CREATE TABLE facts (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            at_s REAL NOT NULL,
            epoch INTEGER NOT NULL,
            kind TEXT NOT NULL,
            body TEXT NOT NULL)""",
        "INSERT INTO meta VALUES ('epoch', 0)",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
    ("ALTER TABLE facts ADD COLUMN digest TEXT NOT NULL DEFAULT ''", _chain_what_is_there),
)


def check_version(connection: sqlite3.Connection, file: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """The schema version of the file, 0 for a new one.

    Raises:
        JournalError: another program's database, or a journal of a newer sentinel.
    """
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (version or owner or tables):
        raise JournalError(f"{file}: another program's database, not a journal of sentinel; move it out of the run directory")
    if version > len(migrations):
        raise JournalError(
            f"{file}: written by a newer sentinel (schema {version}, this one knows up to {len(migrations)}); "
            "install that version or a later one to go on with this run"
        )
    return version


def migrate(connection: sqlite3.Connection, file: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Bring the file to the newest schema, one transaction a step. The connection must be in autocommit."""
    for _ in range(len(migrations) + 1):
        if check_version(connection, file, migrations) == len(migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = check_version(connection, file, migrations)  # somebody else may have been faster
            for statement in migrations[version] if version < len(migrations) else ():
                connection.execute(statement) if isinstance(statement, str) else statement(connection)
            if version < len(migrations):
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    raise AssertionError("a migration did not raise the version")
