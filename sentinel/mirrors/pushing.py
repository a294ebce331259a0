"""A run pushed to its mirror: three parts, each in a thread of its own and with a rhythm of its own, and one record of all.

The record is read again before it is written: a writer that was succeeded (the run was restored elsewhere, and goes on there)
sees it by the generation, and writes no more.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import dumps, loads
from sentinel.clock import SystemClock
from sentinel.errors import JournalError, UsageError
from sentinel.mirrors.checkpoints_part import CheckpointsPart, Interrupted, Unfit, drop_old_checkpoints, kept_after
from sentinel.mirrors.journal_part import JournalPart, drop_old_journals, refuse_other_past
from sentinel.mirrors.opening import open_store
from sentinel.mirrors.record import KEPT, JournalThere, MirrorRecord, read_record, read_records, write_record
from sentinel.mirrors.settings import MirrorSettings
from sentinel.mirrors.stores import MirrorError, RefusedByStore, Store
from sentinel.mirrors.streams_part import StreamsPart, drop_old_streams
from sentinel.mirrors.stretches import read_list
from sentinel.model.amounts import size_words
from sentinel.model.state import RIGHTLY_ENDED, RunState
from sentinel.report.journal_fold import JournalFold
from sentinel.run_files.mirror_standing import Part, PartStanding, mirror_folder

CHECKPOINTS_LOOK_S = 15.0  # or as often as the journal is pushed
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+", re.ASCII)


def folder_name(run_id: str) -> str:
    """The run's own folder below the place that was named."""
    return _NOT_IN_NAMES.sub("-", run_id).strip(".-")[:100] or "run"


class Mirroring:
    """Raises UsageError for what can never work. Each `push_…` raises MirrorError, and is called again later."""

    def __init__(self, run_dir: Path, settings: MirrorSettings, run_id: str) -> None:
        self._run_dir, self._settings, self._run_id = run_dir, settings, run_id
        self._clock = SystemClock()
        self._writing = threading.Lock()
        self._writer, self._generation = _read_writer(run_dir, settings.to)
        self._streams = StreamsPart(run_dir)
        self._journal = JournalPart(run_dir)
        self._is_swept = False
        self._checkpoints: CheckpointsPart | None = None
        if settings.every_steps is not None:
            self._checkpoints = CheckpointsPart(run_dir, settings.every_steps, settings.keep)

    def open(self) -> Store:
        """A store for one thread. Raises UsageError, MirrorError."""
        return open_store(self._settings.to, folder_name(self._run_id))

    @property
    def parts(self) -> tuple[Part, ...]:
        return ("journal", "streams") if self._checkpoints is None else ("journal", "streams", "checkpoints")

    def every_s(self, part: Part) -> float:
        look_s = min(CHECKPOINTS_LOOK_S, self._settings.journal_s)
        return {"journal": self._settings.journal_s, "streams": self._settings.streams_s}.get(part, look_s)

    def push(self, part: Part, store: Store, stop: threading.Event) -> PartStanding:
        """What was due of the part. `stop`: ends it between two files of a checkpoint."""
        began_s = self._clock.wall_s()
        if part == "journal":
            there = self._push_journal(store)
        elif part == "streams":
            there = self._push_streams(store)
        else:
            there = self._push_checkpoints(store, stop)
        every_s = self.every_s(part) if part != "checkpoints" else 0.0
        return PartStanding(since_s=began_s, there=there, every_s=every_s)

    def _push_journal(self, store: Store) -> str:
        there = self._journal.push(store, self.claimed(store), self._clock.wall_s())
        kept = self.change(store, lambda record: _with_journal(record, there))
        drop_old_journals(store, kept)
        return f"{there.entries} entries"

    def _push_streams(self, store: Store) -> str:
        record = self.claimed(store)
        words = ""
        for there in self._streams.push(store, record, self._clock.wall_s()):
            kept = self.change(store, lambda record, there=there: replace(record, streams=there))  # type: ignore[misc]
            words = f"{there.files} files, {size_words(there.bytes)}"
            lists = tuple(read_list(store, one.streams) for one in kept if one.streams is not None)
            if None not in lists:
                drop_old_streams(store, kept, tuple(files for files in lists if files is not None))
        out = self._streams.left_out
        return words + (f"; left out for their size: {', '.join(out[:5])}{' …' if len(out) > 5 else ''}" if out else "")

    def _push_checkpoints(self, store: Store, stop: threading.Event) -> str:
        part = self._checkpoints
        assert part is not None, "the part is off"
        record, state = self.claimed(store), self._state()
        while (found := part.choose(state, record)) is not None:
            assert found.digest is not None
            drop_old_checkpoints(store, tuple(read_records(store))[:KEPT], found.digest)
            try:
                # of a run that has finished nobody waits for the next push
                fresh = part.send(store, found, self._clock.wall_s(), None if state.ended in RIGHTLY_ENDED else stop)
            except Unfit as unfit:
                part.unfit[found.digest] = str(unfit)
                continue
            except Interrupted:
                raise MirrorError(f"step {found.step} is not across yet; the next push goes on") from None
            state = self._state()
            kept = self.change(
                store,
                lambda now, fresh=fresh, state=state: replace(  # type: ignore[misc]
                    now, checkpoints=kept_after(now.checkpoints, fresh, self._settings.keep, state)
                ),
            )
            part.forget_sending()
            record, self._is_swept = kept[0], False
        if not self._is_swept:  # also what a process before this one had begun to delete
            drop_old_checkpoints(store, (record,), "")
            self._is_swept = True
        words = ", ".join(f"step {one.step} ({size_words(one.bytes)})" for one in record.checkpoints) or "none yet"
        return words + (f"; cannot be sent: {next(reversed(part.unfit.values()))}" if part.unfit else "")

    def _state(self) -> RunState:
        try:
            fold = JournalFold(self._run_dir)
            fold.catch_up()
        except (JournalError, UsageError) as error:
            raise MirrorError(str(error)) from error
        return fold.state

    # -- who writes here ----------------------------------------------------------------------------------------------

    def claimed(self, store: Store) -> MirrorRecord:
        """The record that is there, and is ours; an empty one where nothing lies there yet. Raises RefusedByStore where it is
        another's."""
        with self._writing:
            found = read_record(store)
            if found is None:
                if self._generation:
                    raise RefusedByStore(
                        f"{store.where}: the mirror that this run had there is gone. Is it mounted? To begin one anew: "
                        f"sentinel mirror push --anew {self._run_dir}"
                    )
                return self._first()
            if found.writer == self._writer:
                return found
            self._refuse_stranger(found)
            ours = replace(
                found, number=found.number + 1, writer=self._writer, generation=found.generation + 1, host=socket.gethostname()
            )
            write_record(store, ours)
            self._write_down(ours.generation)
            return ours

    def _first(self) -> MirrorRecord:
        return MirrorRecord(0, self._run_id, self._writer, max(1, self._generation), socket.gethostname())

    def _refuse_stranger(self, found: MirrorRecord) -> None:
        if self._generation and found.generation > self._generation:
            raise RefusedByStore(
                f"this run was restored from its mirror and goes on from {found.host} (generation {found.generation}, this is "
                f"{self._generation}): the mirror is not this directory's any more. Stop this supervisor, or that one"
            )
        refuse_other_past(self._run_dir, found)

    def change(self, store: Store, change: Callable[[MirrorRecord], MirrorRecord]) -> tuple[MirrorRecord, ...]:
        """Write the record as it is with the change; those that are kept, the newest first."""
        with self._writing:
            found = read_record(store)
            if found is not None and found.writer != self._writer:
                self._refuse_stranger(found)
                raise MirrorError(f"{store.where}: {found.host} has begun to write this mirror just now")
            base = found or self._first()
            changed = change(base)
            if changed != base or found is None:
                write_record(store, replace(changed, number=base.number + 1, host=socket.gethostname()))
            if self._generation != base.generation:
                self._write_down(base.generation)
            return tuple(read_records(store))[:KEPT]

    def _write_down(self, generation: int) -> None:
        try:
            text = dumps({"to": self._settings.to, "writer": self._writer, "generation": generation})
            write_atomically(_writer_path(self._run_dir), text.encode() + b"\n")
        except OSError as error:
            raise MirrorError(f"{_writer_path(self._run_dir)}: cannot be written: {error.strerror}") from error
        self._generation = generation


def _with_journal(record: MirrorRecord, there: JournalThere) -> MirrorRecord:
    is_new = record.journal is not None and record.journal.name != there.name
    return replace(record, journal=there, journal_before=record.journal if is_new else record.journal_before)


def forget_mirror(run_dir: Path) -> None:
    """A mirror is begun anew with the next push, where none lies there any more. Raises OSError."""
    _writer_path(run_dir).unlink(missing_ok=True)


def _writer_path(run_dir: Path) -> Path:
    return mirror_folder(run_dir) / "writer.json"


def _read_writer(run_dir: Path, to: str) -> tuple[str, int]:
    """This directory's word at the place, and its generation; a new word and 0 where it has none there yet."""
    try:
        plain = loads(read_regular(_writer_path(run_dir)))
        if plain["to"] == to:
            return str(plain["writer"]), int(plain["generation"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return secrets.token_hex(16), 0
