"""A journal that lost its end is not gone on with: it would number the attempts anew and act on checkpoints of which it knows
nothing, while an attempt that it has forgotten may train.

SQLite drops every write after a damaged or missing `sentinel.db-wal` without a word. So what the run directory shows is held
against what the journal knows: the epoch in lease.json and the folders under attempts/ are made after the fact that decides them
is on disk, and journal.head (the number of the newest entry, and a digest of all entries up to it) is written after the entry.
Each may lag the journal, and none may lead it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, RUN_FILE_NAME, attempts_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import UsageError
from sentinel.journal.lease import read_lease
from sentinel.model.facts import AttemptLaunched

if TYPE_CHECKING:
    from sentinel.journal.store import Journal

Row = tuple[object, ...]  # seq, at_s, epoch, kind, body


@dataclass(frozen=True, slots=True)
class Chain:
    """All entries up to number `seq`. `digest`: SHA-256 in hex of the digest before and the last entry."""

    seq: int = 0
    digest: str = ""

    def extended(self, rows: Iterable[Row]) -> Chain:
        seq, digest = self.seq, self.digest
        for row in rows:
            digest = hashlib.sha256(f"{digest}\n{row!r}".encode("utf-8", "surrogatepass")).hexdigest()
            seq = row[0] if isinstance(row[0], int) else seq
        return Chain(seq, digest)


def write_head(run_dir: Path, chain: Chain) -> None:
    """Write journal.head. Where the disk refuses, the head lags until the next entry: that is no loss."""
    with suppress(OSError):
        write_atomically(run_dir / HEAD_NAME, dumps({"seq": chain.seq, "digest": chain.digest}).encode() + b"\n")


def refuse_no_journal(run_dir: Path) -> None:
    """Raises UsageError where the directory holds a run and no journal. Call it before a journal is opened, which makes one."""
    if (run_dir / RUN_FILE_NAME).exists() and not (run_dir / JOURNAL_NAME).exists():
        raise UsageError(
            f"{run_dir}: holds a run whose journal ({JOURNAL_NAME}) is gone, so what was done to it is unknown; restore it from "
            "a copy, or choose another --run-dir"
        )


def refuse_lost_end(run_dir: Path, journal: Journal | None) -> None:
    """Raises UsageError where the run has gone on beyond its journal, and says by what that is seen. `journal` None: its file
    holds no table yet."""
    missing = [*_beyond_epoch(run_dir, journal), *_beyond_head(run_dir, journal), *_beyond_attempts(run_dir, journal)]
    if missing:
        raise UsageError(
            f"{run_dir}: its journal ({JOURNAL_NAME}) has lost entries: {'; '.join(missing)}. Nothing was touched: training and "
            f"checkpoints are left as they are. Keep a copy of {JOURNAL_NAME} and {JOURNAL_NAME}-wal; then restore both from a "
            "copy that was made together, or go on in another --run-dir"
        )


def _beyond_epoch(run_dir: Path, journal: Journal | None) -> list[str]:
    lease, known = read_lease(run_dir), journal.epoch() if journal else 0
    if lease is None or lease.epoch <= known:
        return []
    return [f"lease.json was written by supervisor epoch {lease.epoch}, and the journal knows of {known or 'none'}"]


def _beyond_head(run_dir: Path, journal: Journal | None) -> list[str]:
    head = _read_head(run_dir)
    if head is None:
        return []
    known = journal.chain(up_to=head.seq) if journal else Chain()
    if known.seq < head.seq:
        return [f"{HEAD_NAME} counts {head.seq} entries, and the journal holds {known.seq or 'none'}"]
    if known.digest != head.digest:
        return [f"its entries up to number {head.seq} are others than those that {HEAD_NAME} was written for"]
    return []


def _beyond_attempts(run_dir: Path, journal: Journal | None) -> list[str]:
    begun = _newest_attempt_folder(run_dir)
    if begun == 0:
        return []
    facts = (entry.fact for entry in journal.read_entries()) if journal else ()
    known = max((fact.attempt for fact in facts if isinstance(fact, AttemptLaunched)), default=0)
    if begun <= known:
        return []
    return [f"attempt {begun} has a folder, and the newest that the journal knows is {known or 'none'}"]


def _newest_attempt_folder(run_dir: Path) -> int:
    try:
        names = os.listdir(attempts_folder(run_dir))
    except OSError:
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def _read_head(run_dir: Path) -> Chain | None:
    """None where there is none: the run is older than this file, and gets one with its next entry."""
    path = run_dir / HEAD_NAME
    try:
        plain = loads(read_regular(path))
        seq, digest = plain["seq"], plain["digest"]
        if type(seq) is not int or type(digest) is not str:
            raise ValueError("seq must be a whole number and digest a text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}), so whether {JOURNAL_NAME} is whole is unknown; if you know that it is, delete "
            f"{HEAD_NAME}: the next entry makes a new one"
        ) from error
    return Chain(seq, digest)
