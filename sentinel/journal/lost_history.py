"""A journal that lost its end is not gone on with: it would number the attempts anew and act on checkpoints of which it knows
nothing, while an attempt that it has forgotten may train.

SQLite drops every write after a damaged or missing `sentinel.db-wal` without a word. So what the run directory shows is held
against what the journal knows: the epoch in lease.json and the folders under attempts/ are made after the fact that decides them
is on disk, and journal.head (the number of the newest entry, and a digest of all entries up to it) is written after the entry.
Each may lag the journal, and none may lead it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, RUN_FILE_NAME
from sentinel.errors import JournalError, LostHistory
from sentinel.journal.codec import decode_fact
from sentinel.journal.head import Chain, newest_attempt_folder, read_head, read_second_head, second_head_path
from sentinel.journal.lease import read_lease
from sentinel.journal.store import Journal
from sentinel.model.facts import AttemptLaunched, Fact, InspectionLaunched, JournalSalvaged, RunRestored
from sentinel.model.recorded import recorded_name


def refuse_no_journal(run_dir: Path) -> None:
    """Raises LostHistory where the directory holds a run and no journal. Call it before a journal is opened, which makes one."""
    if (run_dir / RUN_FILE_NAME).exists() and not (run_dir / JOURNAL_NAME).exists():
        raise LostHistory(
            f"{run_dir}: holds a run whose journal ({JOURNAL_NAME}) is gone, so what was done to it is unknown; restore it from "
            f"a copy (`sentinel journal salvage {run_dir} --from COPY`), or choose another --run-dir",
            (f"{JOURNAL_NAME} is gone",),
        )


def refuse_lost_end(run_dir: Path, journal: Journal | None) -> None:
    """Raises LostHistory where the run has gone on beyond its journal, or an entry is not what was written, and says by what that
    is seen. `journal` None: its file holds no table yet. Reads the whole journal."""
    missing = find_changed(journal) or find_missing(run_dir, journal)
    if missing:
        raise LostHistory(
            f"{run_dir}: its journal ({JOURNAL_NAME}) is not whole: {'; '.join(missing)}. Nothing was touched: training and "
            f"checkpoints are left as they are. `sentinel journal verify {run_dir}` says what is whole; "
            f"`sentinel journal salvage {run_dir}` keeps what is damaged aside and goes on from there",
            tuple(missing),
        )


def refuse_other_journal(run_dir: Path, written: Chain) -> None:
    """Raises LostHistory where what lies there does not go on from the entry that this process wrote last. Older files that were
    put in place of the run's agree with each other. What cannot be read without being mended is left to `refuse_lost_end`."""
    try:
        with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
            is_same, last = journal.digest_of(written.seq) == written.digest, journal.end().seq
    except JournalError:
        return
    if is_same:
        return
    what = f"this supervisor wrote {written.seq} entries, and the journal holds {last or 'none'}"
    if last >= written.seq:
        what = f"entry {written.seq} is not the one that this supervisor wrote"
    raise LostHistory(
        f"{run_dir}: its journal ({JOURNAL_NAME}) is not the one that was written: {what}. Nothing was touched: training and "
        "checkpoints are left as they are; put the right directory back and start again",
        (what,),
    )


def find_missing(run_dir: Path, journal: Journal | None) -> list[str]:
    """By what it is seen that the run has gone on beyond its journal. Without reading every entry; right beside a living writer,
    too: what may only lag is read first."""
    lease, head, begun = read_lease(run_dir), read_head(run_dir), newest_attempt_folder(run_dir)
    second, place = read_second_head(run_dir), second_head_path(run_dir)
    epoch = lease.epoch if lease is not None else 0
    missing = [*_beyond_epoch(epoch, journal), *_beyond_head(head, journal)]
    if second is not None and place is not None:
        missing += _beyond(second, str(place.relative_to(run_dir)), journal)
    return [*missing, *_beyond_attempts(begun, journal)]


def describe_missing(run_dir: Path) -> str:
    """A sentence for whoever looks at the run; empty where nothing is seen to be missing. Raises JournalError."""
    try:
        with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
            missing: Sequence[str] = find_missing(run_dir, journal)
    except LostHistory as lost:
        missing = lost.missing
    if not missing:
        return ""
    return f"the journal is not whole: {'; '.join(missing)}; `sentinel journal verify {run_dir}` says what is"


def find_changed(journal: Journal | None) -> list[str]:
    """The first entry that is not what was written. Reads every entry."""
    first = journal.first_unchained() if journal is not None else None
    return [] if first is None else [f"entry {first} is not the one that was written there"]


def _beyond_epoch(epoch: int, journal: Journal | None) -> list[str]:
    known = journal.epoch() if journal else 0
    if epoch <= known:
        return []
    return [f"lease.json was written by supervisor epoch {epoch}, and the journal knows of {known or 'none'}"]


def _beyond_head(head: Chain | None, journal: Journal | None) -> list[str]:
    if head is None:
        known = journal.end().seq if journal else 0
        is_lost = known > 0 and journal is not None and journal.is_chained
        return [f"{HEAD_NAME} is gone, which says how many entries there were; the journal holds {known}"] if is_lost else []
    return _beyond(head, HEAD_NAME, journal)


def _beyond(head: Chain, name: str, journal: Journal | None) -> list[str]:
    known = journal.end().seq if journal else 0
    if known < head.seq:
        return [f"{name} counts {head.seq} entries, and the journal holds {known or 'none'}"]
    if journal is not None and journal.digest_of(head.seq) != head.digest:
        return [f"its entries up to number {head.seq} are others than those that {name} was written for"]
    return []


def _beyond_attempts(begun: int, journal: Journal | None) -> list[str]:
    if begun == 0:
        return []
    known = newest_attempt(journal.read_bodies()) if journal else 0
    if begun <= known:
        return []
    return [f"attempt {begun} has a folder, and the newest that the journal knows is {known or 'none'}"]


def newest_attempt(bodies: Iterable[tuple[str, str]]) -> int:
    """The number of the newest attempt, 0 without one; `bodies`: kind and text of each entry. Of a long journal only the few
    facts that say it are decoded."""
    kinds = {recorded_name(kind) for kind in (AttemptLaunched, InspectionLaunched, JournalSalvaged, RunRestored)}
    facts = (decode_fact(kind, body) for kind, body in bodies if kind in kinds)
    return max((_used_up(fact) for fact in facts), default=0)


def _used_up(fact: Fact) -> int:
    if isinstance(fact, AttemptLaunched | InspectionLaunched):
        return fact.attempt
    return fact.newest_attempt if isinstance(fact, JournalSalvaged | RunRestored) else 0
