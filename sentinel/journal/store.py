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
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, overload

from sentinel.client.atomic_file import fsync_directory
from sentinel.client.closed_files import open_closed
from sentinel.client.regular_file import kind_of_file
from sentinel.errors import Fenced, JournalEmpty, JournalError
from sentinel.filesystem import is_local
from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.journal.head import Chain, Row, note_head, read_head, settle_head, write_head
from sentinel.journal.reader_elsewhere import ReaderElsewhere
from sentinel.journal.schema import CHAINED, MIGRATIONS, READABLE, ROWS, Migration, check_version, migrate
from sentinel.journal.trouble import NO_ROOM, damaged, explained_errors
from sentinel.model.facts import Entry, Fact

_BUSY_S = 5.0  # a reader holds its lock for one page of rows; whoever holds it for seconds is no part of us
_PAGE_ROWS = 2048
QUIET_S = 1.0  # facts come in bursts of milliseconds; between two bursts of a healthy run lie minutes

_INSERT = "INSERT INTO facts (seq, at_s, epoch, kind, body, digest) VALUES (?, ?, ?, ?, ?, ?)"
_CHAINED_ROWS = "SELECT seq, at_s, epoch, kind, body, digest FROM facts WHERE seq > ? ORDER BY seq LIMIT ?"

_NO_RIGHTS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

# In DELETE mode a commit is the unlinking of the rollback journal: only EXTRA syncs the directory after it.
_SYNC = {"wal": "FULL", "delete": "EXTRA"}


class Journal:
    """Open with `Journal.open`. Every method raises JournalError, with file and remedy, when the file cannot serve."""

    def __init__(self, connection: sqlite3.Connection, path: Path, read_only: bool, adopted: Chain | None = None) -> None:
        self._connection = connection
        self._read_only = read_only
        self._folded = read_only
        self._unsettled: Chain | None = None  # what journal.head says, and not yet on disk
        self._file = path.stat()
        self._last_s = -math.inf
        self._written: Chain | None = None  # what stood there when this one wrote last
        self.path = path
        self.adopted = adopted  # the entries that stood there, where they became a chain just now

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
        _refuse_what_never_answers(path)
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
                version = check_version(connection, str(path), migrations)
                connection.execute(f"PRAGMA journal_mode={mode}")
                connection.execute(f"PRAGMA synchronous={_SYNC[mode]}")
                before = _lay_first_head(connection, path, version) if version < CHAINED <= len(migrations) else None
                migrate(connection, str(path), migrations)
                fsync_directory(path.parent)
            except BaseException:
                connection.close()
                raise
        return cls(connection, path, False, adopted=before if before is not None and before.seq else None)

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
            chain = self._end()
            if self._written is not None and self._written != chain:  # nobody else writes: an old copy was put over the file
                raise JournalError(
                    f"{self.path}: ends with entry {chain.seq} now, and ended with entry {self._written.seq}: somebody "
                    f"changed it while it was in use. `sentinel journal verify {self.path.parent}` says what is whole"
                )
            first = chain.seq + 1
            for seq, row in enumerate(rows, first):
                chain = chain.with_row((seq, *row))
                connection.execute(_INSERT, (seq, *row, chain.digest))
        self._folded, self._last_s, self._written, self._unsettled = False, at_s, chain, chain
        with suppress(OSError):  # the disk refuses: the head lags until the next entry, and that is no loss
            note_head(self.path.parent, chain)
        return tuple(Entry(seq, at_s, epoch, fact) for seq, fact in enumerate(facts, first))

    @property
    def written(self) -> Chain | None:
        """The end that this one wrote last; None where it has written nothing."""
        return self._written

    def settle(self) -> None:
        """Bring journal.head to the disk. Nobody waits for that with an act: where the machine stops in between, the entry is on
        disk and the head lags, which is no loss."""
        chain, self._unsettled = self._unsettled, None
        if chain is not None:
            with suppress(OSError):
                settle_head(self.path.parent, chain)

    @overload
    def claim_epoch(self) -> int: ...
    @overload
    def claim_epoch(self, after: int) -> int | None: ...
    def claim_epoch(self, after: int | None = None) -> int | None:
        """Raise the epoch by one and return it: from now on every earlier supervisor is fenced off. `after`: only where it still
        is this one; None: it is not, and nothing was changed."""
        with self._transaction("claim an epoch") as connection:
            epoch = self._epoch() + 1
            if after is not None and epoch != after + 1:
                return None
            connection.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (epoch,))
        return epoch

    def read_entries(self, after_seq: int = 0) -> Iterator[Entry]:
        """The entries after `after_seq`, oldest first. Read page by page, so that no lock outlives a page.

        Raises:
            JournalError: an entry is damaged; names its number.
        """
        sql = f"{ROWS} LIMIT ?"
        while True:
            with explained_errors(self.path, "read the journal", read_only=self._read_only):
                rows = self._page(sql, after_seq)
            for row in rows:
                yield self._entry(*row)
            if len(rows) < _PAGE_ROWS:
                return
            after_seq = rows[-1][0]

    def _page(self, sql: str, after_seq: int) -> Sequence[Any]:
        if isinstance(self._connection, ReaderElsewhere):
            return self._connection.read_row_after_row(sql, after_seq, _PAGE_ROWS)
        return self._connection.execute(sql, (after_seq, _PAGE_ROWS)).fetchall()

    def last_at_s(self) -> float:
        """Session time of the last entry, the floor of the next session's clock; 0.0 for an empty journal."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            row = self._connection.execute("SELECT at_s FROM facts ORDER BY seq DESC LIMIT 1").fetchone()
        return float(row[0]) if row else 0.0

    def epoch(self) -> int:
        """The highest epoch claimed so far, 0 when none was."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            return self._epoch()

    @property
    def is_chained(self) -> bool:
        """False for a file of an older version, which `open` for writing makes a chain."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            return bool(self._connection.execute("PRAGMA user_version").fetchone()[0] >= CHAINED)

    def end(self) -> Chain:
        """The number of the last entry and its digest, as they stand there. Of a file without a chain they are computed."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            return self._end() if self.is_chained else Chain().extended(self._connection.execute(ROWS, (0,)))

    def digest_of(self, seq: int) -> str | None:
        """As it stands there; None where there is no such entry, "" for number 0. Of a file without a chain it is computed."""
        if seq == 0:
            return ""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            if self.is_chained:
                row = self._connection.execute("SELECT digest FROM facts WHERE seq = ?", (seq,)).fetchone()
                return row[0] if row else None
            rows = [row for row in self._connection.execute(ROWS, (0,)) if row[0] <= seq]
        return Chain().extended(rows).digest if rows and rows[-1][0] == seq else None

    def read_chain(self) -> Iterator[tuple[Row, str]]:
        """Every row with the digest that stands with it, oldest first.

        Raises:
            JournalError: the next row cannot be read.
        """
        after = 0
        while True:
            with explained_errors(self.path, "read the journal", read_only=self._read_only):
                rows = self._connection.execute(_CHAINED_ROWS, (after, _PAGE_ROWS)).fetchall()
            for *row, digest in rows:
                yield (row[0], row[1], row[2], row[3], row[4]), digest
            if len(rows) < _PAGE_ROWS:
                return
            after = rows[-1][0]

    def read_bodies(self) -> Iterator[tuple[str, str]]:
        """Kind and body of every entry, oldest first, as they stand there. Raises JournalError."""
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            yield from self._connection.execute("SELECT kind, body FROM facts ORDER BY seq").fetchall()

    def read_kinds(self, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The same, of these kinds alone."""
        marks = ", ".join("?" * len(kinds))
        with explained_errors(self.path, "read the journal", read_only=self._read_only):
            rows = self._connection.execute(f"SELECT kind, body FROM facts WHERE kind IN ({marks}) ORDER BY seq", tuple(kinds))
            yield from rows.fetchall()

    def first_unchained(self) -> int | None:
        """The number of the first entry that is another than was written there, or that is missing before a later one; None: all
        are whole, or nothing says what they were (a file without a chain)."""
        if not self.is_chained:
            return None
        chain = Chain()
        for row, digest in self.read_chain():
            if row[0] != chain.seq + 1:
                return chain.seq + 1
            chain = chain.with_row(row)
            if chain.digest != digest:
                return row[0]
        return None

    def fold_when_quiet(self, now_s: float, quiet_s: float = QUIET_S) -> None:
        """Bring sentinel.db-wal into sentinel.db and empty it, once nothing was written for `quiet_s` seconds: then a -wal that
        is lost or damaged costs nothing. Never waits: while a reader is in the way it is tried again with the next call."""
        if self._folded or now_s - self._last_s < quiet_s:
            return
        with explained_errors(self.path, "fold the journal"):
            self._connection.execute("PRAGMA busy_timeout=0")
            try:
                # Not PASSIVE: it leaves folded frames in the -wal; if that is damaged later, its older frames hide newer pages.
                is_busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                is_busy = 1
            finally:
                self._connection.execute(f"PRAGMA busy_timeout={round(_BUSY_S * 1000)}")
        self._folded = not is_busy

    def fill(self, rows: Sequence[Row], epoch: int) -> None:
        """Write rows of another journal, as they stood there, into this empty one, and its epoch."""
        assert self.end().seq == 0, f"{self.path} holds entries"
        chain = Chain()
        with self._transaction("write a new journal") as connection:
            for row in rows:
                chain = chain.with_row(row)
                connection.execute(_INSERT, (*row, chain.digest))
            connection.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (epoch,))
        write_head(self.path.parent, chain)

    def close(self) -> None:
        self.settle()
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> Chain:
        row = self._connection.execute("SELECT seq, digest FROM facts ORDER BY seq DESC LIMIT 1").fetchone()
        return Chain(seq=row[0], digest=row[1]) if row else Chain()

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


def _lay_first_head(connection: sqlite3.Connection, path: Path, version: int) -> Chain:
    """Write journal.head before the entries become a chain: a chain without a head has lost it. Returns what the chain will be.

    A head that stands there already was written by a supervisor that was killed here, or shows what is lost: it is left as it is.
    """
    chain = Chain().extended(connection.execute(ROWS, (0,))) if version else Chain()
    if read_head(path.parent) is None:
        write_head(path.parent, chain)
    return chain


def _refuse_what_never_answers(path: Path) -> None:
    """SQLite opens whatever has one of its names, and waits for ever for a FIFO. Raises JournalError."""
    for name in (path.name, *(f"{path.name}-{what}" for what in ("wal", "shm", "journal"))):
        beside = path.with_name(name)
        try:
            mode = beside.stat().st_mode
        except OSError:  # what is not there is made; what cannot be looked at, SQLite explains
            continue
        if not stat.S_ISREG(mode):
            raise JournalError(
                f"{beside}: is {kind_of_file(mode)}, not a regular file, and nobody knows what was there; move it away and put "
                f"the journal back from a copy: sentinel journal salvage {path.parent} --from COPY"
            )


def _connect_reader(path: Path, busy_s: float, migrations: tuple[Migration, ...]) -> sqlite3.Connection:
    if not path.exists():
        raise JournalError(f"{path}: there is no journal; is {path.parent} the directory of a run?")
    file = str(path)
    with explained_errors(path, "open the journal", read_only=True):
        kind = sqlite3.Connection if is_local(path.parent) else ReaderElsewhere
        connection = sqlite3.connect(_uri(path, "ro"), uri=True, timeout=busy_s, isolation_level=None, factory=kind)
        if isinstance(connection, ReaderElsewhere):
            connection.path = path
        try:
            try:
                version = check_version(connection, file, migrations)
            except sqlite3.OperationalError as error:
                if not _may_be_read_as_it_is(path, error):
                    raise
                connection.close()
                connection = sqlite3.connect(_uri(path, "ro") + "&immutable=1", uri=True, isolation_level=None)
                version = check_version(connection, file, migrations)
        except BaseException:
            connection.close()
            raise
    if version >= READABLE:
        return connection
    connection.close()
    raise JournalEmpty(f"{path}: the journal is still empty; look again when `sentinel run` has started")


def _may_be_read_as_it_is(path: Path, error: sqlite3.OperationalError) -> bool:
    """Whether a WAL journal whose -shm file cannot be made may be read as the plain file it is. Without the right to make one: if
    there is no -wal file, so that no supervisor has it open. Without room for one, on a disk that is full: if nothing stands in
    the -wal file. Whoever reads looks once and opens it anew; until there is room nobody can write more."""
    try:
        log_bytes: int | None = path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        log_bytes = None
    if error.sqlite_errorcode & 0xFF in _NO_RIGHTS:
        return log_bytes is None
    return error.sqlite_errorcode == NO_ROOM and not log_bytes


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"
