"""RUN_DIR/sentinel.db: the run's facts in order, durable when `append` returns, kept by one writer.

It judges nothing. Two guards: a batch is one transaction (all of it survives a kill -9, or none), and every write
compares epochs, so that a supervisor that was taken over can write no more (`Fenced`). One connection belongs to one
thread; open another to read elsewhere.

    with Journal.open(run_dir / "sentinel.db") as journal:
        epoch = journal.claim_epoch()
        entries = journal.append(clock.now_s(), facts, epoch)
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from sentinel.client.atomic_file import fsync_directory
from sentinel.client.closed_files import open_closed
from sentinel.errors import Fenced, JournalEmpty, JournalError
from sentinel.filesystem import is_local
from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.journal.head import Chain, write_head
from sentinel.journal.schema import MIGRATIONS, Migration, check_version, migrate
from sentinel.journal.trouble import damaged, explained_errors
from sentinel.model.facts import Entry, Fact

_BUSY_S = 5.0  # a reader holds its lock for one page of rows; whoever holds it for seconds is no part of us
_PAGE_ROWS = 2048

_ROWS = "SELECT seq, at_s, epoch, kind, body FROM facts WHERE seq > ?"

_NO_RIGHTS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

# In DELETE mode a commit is the unlinking of the rollback journal: only EXTRA syncs the directory after it.
_SYNC = {"wal": "FULL", "delete": "EXTRA"}


class Journal:
    """Open with `Journal.open`. Every method raises JournalError, with file and remedy, when the file cannot serve."""

    def __init__(self, connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
        self._connection = connection
        self._read_only = read_only
        self._file = path.stat()
        self._chain = Chain()
        self.path = path

    @classmethod
    def open(
        cls,
        path: Path,
        read_only: bool = False,
        *,
        mode: Literal["wal", "delete"] | None = None,
        busy_s: float = _BUSY_S,
        migrations: tuple[Migration, ...] = MIGRATIONS,
    ) -> Journal:
        """Open, create or bring up to date. `mode` None: WAL on a local disk, DELETE elsewhere.

        `read_only` is for looking at a live run: it blocks no writer, is blocked by none, and needs no right to write.
        """
        if read_only:
            return cls(_connect_reader(path, busy_s, migrations), path, True)
        mode = mode or ("wal" if is_local(path.parent) else "delete")
        with explained_errors(path, "open the journal"):
            with suppress(OSError):  # sqlite gives -wal and -shm the mode that this file has, and says what is wrong
                os.close(open_closed(path, os.O_RDWR))
            connection = sqlite3.connect(_uri(path, "rwc"), uri=True, timeout=busy_s, isolation_level=None)
            try:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise damaged(path, verdict)
                check_version(connection, str(path), migrations)
                connection.execute(f"PRAGMA journal_mode={mode}")
                connection.execute(f"PRAGMA synchronous={_SYNC[mode]}")
                migrate(connection, str(path), migrations)
                fsync_directory(path.parent)
            except BaseException:
                connection.close()
                raise
        return cls(connection, path, False)

    def append(self, at_s: float, facts: Sequence[Fact], epoch: int) -> tuple[Entry, ...]:
        """Write the facts as one batch; they are on disk when this returns.

        Args:
            at_s: session time of the batch.
            epoch: the writer's own, from `claim_epoch`.

        Raises:
            Fenced: a supervisor with a higher epoch has taken the run over; nothing was written.
            JournalError: nothing is acknowledged. After a failed sync the batch may yet be found on the next start:
                facts that were never acted upon, which is what the next supervisor then does.
            TypeError: a fact that could not be read back; nothing was written.
        """
        assert math.isfinite(at_s), f"a journal entry at {at_s}"
        rows = [(at_s, epoch, *encode_fact(fact)) for fact in facts]
        if not rows:
            return ()
        with self._transaction("append to the journal") as connection:
            stored = self._epoch()
            if stored > epoch:
                raise Fenced(f"{self.path}: supervisor epoch {stored} took this run over from epoch {epoch}, which must leave")
            assert stored == epoch, f"epoch {epoch} was never claimed, the journal stands at {stored}"
            self._chain = self._chained_to_end()  # before ours: a supervisor that was taken over may have written since
            sql = "INSERT INTO facts (at_s, epoch, kind, body) VALUES (?, ?, ?, ?)"
            seqs = [connection.execute(sql, row).lastrowid or 0 for row in rows]
        self._chain = self._chain.extended((seq, *row) for seq, row in zip(seqs, rows, strict=True))
        write_head(self.path.parent, self._chain)
        return tuple(Entry(seq, at_s, epoch, fact) for seq, fact in zip(seqs, facts, strict=True))

    def claim_epoch(self) -> int:
        """Raise the epoch by one and return it: from now on every earlier supervisor is fenced off."""
        with self._transaction("claim an epoch") as connection:
            epoch = self._epoch() + 1
            connection.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (epoch,))
        return epoch

    def read_entries(self, after_seq: int = 0) -> Iterator[Entry]:
        """The entries after `after_seq`, oldest first. Read page by page, so that no lock outlives a page.

        Raises:
            JournalError: an entry is damaged; names its number.
        """
        sql = f"{_ROWS} ORDER BY seq LIMIT ?"
        while True:
            with explained_errors(self.path, "read the journal", read_only=self._read_only):
                rows = self._connection.execute(sql, (after_seq, _PAGE_ROWS)).fetchall()
            for row in rows:
                yield self._entry(*row)
            if len(rows) < _PAGE_ROWS:
                return
            after_seq = rows[-1][0]

    def last_at_s(self) -> float:
        """Session time of the last entry, the floor of the next session's clock; 0.0 for an empty journal."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            row = self._connection.execute("SELECT at_s FROM facts ORDER BY seq DESC LIMIT 1").fetchone()
        return float(row[0]) if row else 0.0

    def epoch(self) -> int:
        """The highest epoch claimed so far, 0 when none was."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            return self._epoch()

    def chain(self, up_to: int) -> Chain:
        """The number and digest of the entries up to number `up_to`, fewer where the journal holds fewer."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            return Chain().extended(self._connection.execute(f"{_ROWS} AND seq <= ? ORDER BY seq", (0, up_to)))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chained_to_end(self) -> Chain:
        return self._chain.extended(self._connection.execute(f"{_ROWS} ORDER BY seq", (self._chain.seq,)))

    def _epoch(self) -> int:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        if row is None or type(row[0]) is not int:
            raise damaged(self.path, "the supervisor epoch is missing")
        return row[0]

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        assert not self._read_only, f"the journal was opened read-only, cannot {doing}"
        with explained_errors(self.path, doing):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if not os.path.samestat(self._file, self.path.stat()):  # SQLite would go on writing to the deleted file
                    raise JournalError(f"{self.path}: replaced by another file while in use; stop, and put the right one back")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself rolls back after a full disk
                    self._connection.execute("ROLLBACK")
                raise

    def _entry(self, seq: int, at_s: object, epoch: object, kind: object, body: object) -> Entry:
        if not (isinstance(at_s, float) and isinstance(epoch, int) and isinstance(kind, str) and isinstance(body, str)):
            raise damaged(self.path, f"entry {seq}")
        try:
            return Entry(seq, at_s, epoch, decode_fact(kind, body))
        except JournalError as error:
            raise damaged(self.path, f"entry {seq}: {error}") from error


def _connect_reader(path: Path, busy_s: float, migrations: tuple[Migration, ...]) -> sqlite3.Connection:
    if not path.exists():
        raise JournalError(f"{path}: there is no journal; is {path.parent} the directory of a run?")
    file = str(path)
    with explained_errors(path, "open the journal", read_only=True):
        connection = sqlite3.connect(_uri(path, "ro"), uri=True, timeout=busy_s, isolation_level=None)
        try:
            try:
                version = check_version(connection, file, migrations)
            except sqlite3.OperationalError as error:
                # Without the right to create the -shm file a cleanly closed WAL journal cannot be opened as one. No -wal
                # file means that no supervisor has it open, so that it may be read as the plain file it is.
                if error.sqlite_errorcode & 0xFF not in _NO_RIGHTS or path.with_name(path.name + "-wal").exists():
                    raise
                connection.close()
                connection = sqlite3.connect(_uri(path, "ro") + "&immutable=1", uri=True, isolation_level=None)
                version = check_version(connection, file, migrations)
        except BaseException:
            connection.close()
            raise
    if version == len(migrations):
        return connection
    connection.close()
    if version == 0:
        raise JournalEmpty(f"{path}: the journal is still empty; look again when `sentinel run` has started")
    raise JournalError(
        f"{path}: written by an older sentinel (schema {version}, this one reads {len(migrations)}); "
        "`sentinel run` brings it up to date, or look at it with the version that wrote it"
    )


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"
