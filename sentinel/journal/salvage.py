"""What of a journal is whole, and a new one made of it. Whoever calls this holds the run's lock, and no attempt lives."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.atomic_file import fsync_directory
from sentinel.client.closed_files import make_folder
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, LEASE_NAME
from sentinel.errors import JournalEmpty, JournalError, LostHistory
from sentinel.journal.head import Chain, Row, newest_attempt_folder, read_head, read_second_head, second_head_path
from sentinel.journal.lease import read_lease
from sentinel.journal.lost_history import find_changed, find_missing, newest_attempt
from sentinel.journal.store import Journal
from sentinel.model.facts import JournalSalvaged

KEPT_IN = "journal-damaged"  # a folder of the run directory, with a number behind it
FOLDERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Verified:
    """How a journal stands. `whole`: so many entries from the first on are as they were written; None where nothing says what was
    written (a journal of an older version). `wrong`: what is not as it should be, a line each."""

    entries: int
    whole: int | None
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WholeEntries:
    """The entries of one file from the first on, as far as they are whole. `epoch`: the newest supervisor's that it knows."""

    source: Path
    rows: tuple[Row, ...] = ()
    chain: Chain = field(default_factory=Chain)
    epoch: int = 0


def verify_journal(run_dir: Path) -> Verified:
    """Reads every entry, changes nothing; beside a living supervisor, too."""
    path = run_dir / JOURNAL_NAME
    try:
        with Journal.open(path, read_only=True) as journal:
            wrong = tuple(find_changed(journal) or find_missing(run_dir, journal))
            count, whole = journal.end().seq, read_whole(path).chain.seq
            return Verified(count, whole if journal.is_chained else None, wrong)
    except LostHistory as lost:
        return Verified(0, read_whole(path).chain.seq, lost.missing)
    except JournalEmpty:
        missing = find_missing(run_dir, None)
        return Verified(0, 0, tuple(missing or [f"{JOURNAL_NAME} is empty"]))
    except JournalError as error:
        return Verified(0, read_whole(path).chain.seq, (error.message,))


def read_whole(path: Path) -> WholeEntries:
    """What can be had of a file: nothing of one that is gone or no journal. Never raises for what the file holds."""
    rows: list[Row] = []
    chain, epoch = Chain(), 0
    try:
        with Journal.open(path, read_only=True) as journal:
            is_chained, epoch = journal.is_chained, journal.epoch()
            for row, digest in journal.read_chain():
                longer = chain.with_row(row)
                if row[0] != chain.seq + 1 or (is_chained and longer.digest != digest):
                    break
                rows.append(row)
                chain = longer
    except JournalError:
        pass  # what was read before stands
    return WholeEntries(path, tuple(rows), chain, epoch)


def copies_of(run_dir: Path) -> list[Path]:
    """The run's own journal, and those that earlier salvages have kept."""
    return [run_dir / JOURNAL_NAME, *sorted(run_dir.glob(f"{KEPT_IN}-*/{JOURNAL_NAME}"))]


def count_lost(run_dir: Path, best: WholeEntries) -> int | None:
    """How many entries the run is known to have had beyond these; None where that is unknown, 0 where these are all. Old copies
    that were put back together agree with each other: the newest attempt's folder has a head as well, and its number is newer."""
    try:
        head, second = read_head(run_dir), read_second_head(run_dir)
    except LostHistory:
        return None
    heads = [one for one in (head, second) if one is not None]
    if head is None or any(Chain().extended(best.rows[: one.seq]) != one for one in heads if one.seq <= best.chain.seq):
        return None
    furthest = max(one.seq for one in heads)
    if furthest > best.chain.seq:
        return furthest - best.chain.seq
    lease, attempt = read_lease(run_dir), newest_attempt((str(kind), str(body)) for _, _, _, kind, body in best.rows)
    is_outrun = newest_attempt_folder(run_dir) > attempt or (lease is not None and lease.epoch > best.epoch)
    return None if is_outrun else 0


def rebuild(run_dir: Path, best: WholeEntries, lost: int | None, epoch: int) -> Path:
    """Put a journal of these entries and one fact more (JournalSalvaged) in the place of the damaged one.

    Returns the folder that holds the files as they were. Killed at any point, it leaves them there or where they were.
    Raises OSError, JournalError.
    """
    kept = _new_folder(run_dir)
    for name in (JOURNAL_NAME, f"{JOURNAL_NAME}-wal", HEAD_NAME, LEASE_NAME):
        if (run_dir / name).is_file():
            shutil.copy2(run_dir / name, kept / name)
        elif (run_dir / name).exists():  # a FIFO, a folder: it holds nothing that could be read, and stands in the way
            os.replace(run_dir / name, kept / name)
    second = second_head_path(run_dir)
    if second is not None and second.exists():
        os.replace(second, kept / f"{HEAD_NAME}-of-attempt")  # it counts what is lost, and the next entry lays another
    fresh = kept / "new"
    make_folder(fresh)
    fact = JournalSalvaged(lost, kept.name, newest_attempt_folder(run_dir))
    at_s = best.rows[-1][1] if best.rows else 0.0
    assert isinstance(at_s, float), "read_whole has checked it"
    with Journal.open(fresh / JOURNAL_NAME, mode="delete") as journal:
        journal.fill(best.rows, epoch)
        journal.append(at_s, [fact], epoch)
    for name in (f"{JOURNAL_NAME}-wal", f"{JOURNAL_NAME}-shm"):
        (run_dir / name).unlink(missing_ok=True)
    for name in (JOURNAL_NAME, HEAD_NAME):
        os.replace(fresh / name, run_dir / name)
    fresh.rmdir()
    for folder in (kept, run_dir):
        fsync_directory(folder)
    return kept


def write_copy(whole: WholeEntries, folder: Path) -> Path:
    """A journal of these entries in `folder`, which holds none, and its head. Raises OSError, JournalError."""
    path = folder / JOURNAL_NAME
    with Journal.open(path, mode="delete") as journal:
        journal.fill(whole.rows, whole.epoch)
    return path


def _new_folder(run_dir: Path) -> Path:
    for number in range(1, FOLDERS_MAX):
        folder = run_dir / f"{KEPT_IN}-{number}"
        if not folder.exists():
            make_folder(folder)
            return folder
    raise FileExistsError(17, "no free name for a damaged journal; move older ones elsewhere", str(run_dir / KEPT_IN))
