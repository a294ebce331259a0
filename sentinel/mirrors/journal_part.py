"""The run's journal on the mirror: a copy made of entries whose chain was verified, never of a living file.

It may lag the run's journal and never leads it. The copy before stays until the new one was read back and the record names it.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.head import Chain
from sentinel.journal.salvage import WholeEntries, read_whole, write_copy
from sentinel.journal.store import Journal
from sentinel.mirrors.record import JournalThere, MirrorRecord
from sentinel.mirrors.stores import Digest, MirrorError, RefusedByStore, Store, blocks_of, digest_of, send
from sentinel.run_files.mirror_standing import mirror_folder

FOLDER = "journal"


def refuse_other_past(run_dir: Path, record: MirrorRecord) -> Chain:
    """Where this journal ends. Raises RefusedByStore where what the mirror has is not its beginning; MirrorError."""
    there = record.journal
    try:
        with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
            if there is not None and journal.digest_of(there.entries) != there.digest:
                raise RefusedByStore(
                    f"a mirror of run {record.run} with {there.entries} entries lies there, written from {record.host}, and this "
                    "journal does not begin with them: it is of another run, or of this one after it went on elsewhere, or the "
                    "journal here has lost its end. Mirror to another place, or move that one away"
                )
            return journal.end()
    except JournalError as error:
        raise MirrorError(str(error)) from error


class JournalPart:
    """What lies there is read back once in this process, and then its size is enough."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._folder = mirror_folder(run_dir) / "journal-copy"
        self._checked = ""

    def push(self, store: Store, record: MirrorRecord, wall_s: float) -> JournalThere:
        """The copy that is there now: the one of before where nothing is new. Raises MirrorError, RefusedByStore."""
        end, there = refuse_other_past(self._run_dir, record), record.journal
        if there is not None and end == Chain(there.entries, there.digest) and self._is_there(store, there):
            return there
        whole = read_whole(self._run_dir / JOURNAL_NAME)
        if whole.chain.seq < end.seq:
            why = f"only the first {whole.chain.seq} of {end.seq} entries of the journal are whole"
            raise MirrorError(f"{why}, so the mirror keeps what it has; sentinel journal verify {self._run_dir}")
        newest = whole.rows[-1][2] if whole.rows else 0
        whole = replace(whole, epoch=max(whole.epoch, newest if isinstance(newest, int) else 0))
        name = f"{FOLDER}/{whole.chain.seq:08d}-{whole.chain.digest[:12]}.db"
        try:
            with open(self._copy(whole), "rb", opener=regular) as file:
                sent = send(store, name, blocks_of(file))
        except (OSError, JournalError) as error:
            raise MirrorError(f"{self._folder}: a copy of the journal cannot be made: {error}") from error
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._checked = name
        return JournalThere(name, sent.size, sent.hex, whole.chain.seq, whole.chain.digest, whole.epoch, wall_s)

    def _is_there(self, store: Store, there: JournalThere) -> bool:
        if store.size(there.name) != there.size:
            return False
        if self._checked != there.name and digest_of(store.read(there.name)) != Digest(there.size, there.sha256):
            return False
        self._checked = there.name
        return True

    def _copy(self, whole: WholeEntries) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        ensure_directory(self._folder)
        path = write_copy(whole, self._folder)
        if read_whole(path).chain != whole.chain:
            raise MirrorError(f"{path}: the copy is not whole; is the disk sick?")
        return path


def drop_old_journals(store: Store, kept: tuple[MirrorRecord, ...]) -> None:
    """Copies that no kept record names. Raises MirrorError."""
    named = {there.name for one in kept for there in (one.journal, one.journal_before) if there is not None}
    for name in store.names(FOLDER):
        if f"{FOLDER}/{name}" not in named:
            store.delete(f"{FOLDER}/{name}")
