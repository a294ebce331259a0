"""A journal that lost its end is not gone on with: it would number the attempts anew and act on checkpoints of which it knows
nothing, while an attempt that it has forgotten may train.

SQLite drops every write after a damaged or missing `sentinel.db-wal` without a word. So what the run directory shows is held
against what the journal knows: the epoch in lease.json and the folders under attempts/ are made after the fact that decides them
is on disk, and journal.head (the number of the newest entry, and a digest of all entries up to it) is written after the entry.
Each may lag the journal, and none may lead it.
"""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, RUN_FILE_NAME, attempts_folder
from sentinel.errors import UsageError
from sentinel.journal.head import Chain, read_head
from sentinel.journal.lease import read_lease
from sentinel.journal.store import Journal
from sentinel.model.facts import AttemptLaunched


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
    head = read_head(run_dir)
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
