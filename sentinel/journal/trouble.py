"""What SQLite reports, as a sentence that names the file and the remedy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sentinel.errors import JournalBlocked, JournalError, OutOfReach
from sentinel.journal.reach import find_out_of_reach, may_pass

_DAMAGED = (
    "the file is damaged; keep a copy of it and of {path}-wal, then save what can be read: "
    "sqlite3 {path} .recover | sqlite3 {path}.recovered"
)
_CLOSED = "it cannot be opened; check that the run directory exists and that this user may read and write it"
_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; free space under {folder} and start again: nothing acknowledged is lost",
    sqlite3.SQLITE_BUSY: "another process keeps it locked; close whatever has it open (`fuser {path}` tells) and start again",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; close whatever has it open (`fuser {path}` tells) and start again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_READONLY: "it cannot be written; check the rights of this user and that {folder} is not mounted read-only",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; look at the kernel log (dmesg), at quotas and at {folder}'s server",
}
NO_ROOM = sqlite3.SQLITE_IOERR_SHMSIZE  # for the -shm file that whoever reads a WAL journal needs
_MAY_PASS = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
)  # fmt: skip
_RIGHTS = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY  # as which a directory out of reach shows, too
_CUT_SHORT = "the last supervisor was killed while writing; the next `sentinel run` on {folder} repairs it"


@contextmanager
def explained_errors(path: Path, doing: str, *, read_only: bool = False) -> Iterator[None]:
    """Turn what SQLite or the system raises inside into a JournalError, JournalBlocked when it may pass.

    A ProgrammingError is our bug and stays one.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        away = find_out_of_reach(path.parent, is_new=True) if code in _RIGHTS and not read_only else None
        if away is not None:
            raise away from error
        is_passing = code in _MAY_PASS or (code in _RIGHTS and os.path.lexists(path))
        kind = JournalBlocked if is_passing and not read_only else JournalError
        raise kind(_sentence(path, doing, error, read_only)) from error
    except OSError as error:
        passing = may_pass(path, error)
        if isinstance(passing, OutOfReach):
            raise passing from error
        kind = JournalError if passing is None else JournalBlocked
        raise kind(f"{path}: cannot {doing} ({error}); look at the disk and the rights of this user") from error


def damaged(path: Path, what: str) -> JournalError:
    return JournalError(f"{path}: {what}: " + _DAMAGED.format(path=path))


def _sentence(path: Path, doing: str, error: sqlite3.DatabaseError, read_only: bool) -> str:
    code = getattr(error, "sqlite_errorcode", 0)
    remedy = _REMEDIES[sqlite3.SQLITE_FULL] if code == NO_ROOM else _REMEDIES.get(code & 0xFF, _DAMAGED)
    if read_only and code == sqlite3.SQLITE_READONLY_ROLLBACK:
        remedy = _CUT_SHORT
    return f"{path}: cannot {doing} ({error}): " + remedy.format(path=path, folder=path.parent)
