"""Reading the journal on a filesystem whose clients keep for a while what they have seen.

A writer on another machine deletes its rollback journal with every commit, and the file grows. A client that still holds the name
of a deleted one fails to read it, or takes it for what a killed writer has left, and may not roll that back; one that holds the
size or a page of a moment ago shows SQLite a file that does not fit together. So an I/O error may be none of a disk, a killed
writer may live, and damage may be none. On GlusterFS with two clients 6 of 351 openings beside a
supervisor that wrote met the first, for 0.35 s at most, and 2 of 500 the second (2026-11-27).

Time alone does not mend it: the kernel keeps a page until it hears of another time or size of the file, and a page that was read
between two writes of one tick of the server's clock is as old as the file is quiet. In 6 of 38 bursts of 40 writes pages were old
2.5 s after the last, beside a reader that asked for the file's time; each was new at once when the kernel was told to forget them
(two clients of GlusterFS, 2026-11-28).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentinel.client.regular_file import regular
from sentinel.clock import SystemClock

TIMES = 15
EVERY_S = 0.2
_MAY_BE_OLD = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY)
# Device and inode → an own handle of the file. None is ever closed: with the first that a process closes, it loses every
# lock that it has on the file (fcntl(2)), those of another connection of SQLite's too.
_handles: dict[tuple[int, int], int] = {}


class Fetched(list[Any]):
    """The rows of a statement, as a cursor hands them out."""

    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0] if self else None


class ReaderElsewhere(sqlite3.Connection):
    """A statement that meets such an error is asked again, TIMES in all; what stays is told. For reading alone: a write that
    failed is never made again unasked. All rows are fetched at once, so that every one of them is asked for again."""

    every_s = EVERY_S
    path: Path | None = None  # of the database; the kernel forgets its pages, too

    def execute(self, *words: Any) -> Any:
        for _ in range(TIMES - 1):
            try:
                return Fetched(super().execute(*words).fetchall())
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _MAY_BE_OLD:
                    raise
            self.forget()
        return Fetched(super().execute(*words).fetchall())

    def read_row_after_row(self, sql: str, after_seq: int, count: int) -> Sequence[Any]:
        """`sql`: for rows whose first column is their number. Where one is missing or stands twice, an old page was read beside
        newer ones; rows never change, so nothing else of it can be wrong. What stays so, `sentinel journal verify` tells."""
        rows: list[Any] = []
        for _ in range(TIMES):
            rows = self.execute(sql, (after_seq, count)).fetchall()
            if all(row[0] == number for number, row in enumerate(rows, after_seq + 1)):
                break
            self.forget()
        return rows

    def forget(self) -> None:
        """What SQLite has read of the file, once the filesystem has had time to."""
        SystemClock().wait(threading.Event(), self.every_s)
        with suppress(sqlite3.DatabaseError):
            super().execute("PRAGMA shrink_memory")
        if self.path is not None:
            with suppress(OSError):
                forget_pages(self.path)


def forget_pages(path: Path) -> None:
    """The kernel reads the file anew from its filesystem. Raises OSError."""
    status = path.stat()
    place = (status.st_dev, status.st_ino)
    if place not in _handles:
        _handles[place] = regular(str(path), os.O_RDONLY)
    os.posix_fadvise(_handles[place], 0, 0, os.POSIX_FADV_DONTNEED)
