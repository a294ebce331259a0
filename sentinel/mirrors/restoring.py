"""`sentinel restore`: a run brought back from its mirror into a directory that is not there yet.

Everything is fetched aside and compared with its digests; the directory appears under its name when it is a run that can go on:
its journal says that it was restored and under the next epoch, every attempt of the lost machine has ended, and the checkpoints
that the journal knows are those that came along.
"""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory, fsync_directory
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, POLICIES, RUN_FILE_NAME, attempts_folder
from sentinel.engine import evolve
from sentinel.errors import SentinelError, UsageError
from sentinel.journal.codec import decode_fact
from sentinel.journal.lost_history import find_missing
from sentinel.journal.run_file import find_run_file
from sentinel.journal.run_folder import ensure_run_dir
from sentinel.journal.store import Journal
from sentinel.launcher.exit_report import write_report
from sentinel.mirrors.checkpoints_part import whole_there
from sentinel.mirrors.fetching import fetch_checkpoint, fetch_files, fetch_journal, open_mirror_at
from sentinel.mirrors.record import CheckpointThere, JournalThere, MirrorRecord
from sentinel.mirrors.stores import MirrorError, Store
from sentinel.mirrors.stretches import read_list
from sentinel.model.attempts import ExitReport
from sentinel.model.facts import RunRestored
from sentinel.model.state import RunState
from sentinel.run_files.attempt_files import AttemptFiles

ASIDE = ".restoring"
NEWEST, NONE = "newest", "none"


@dataclass(frozen=True, slots=True)
class RestoredRun:
    """`record`: what the mirror was when it was read. `checkpoint`: the one that came along; None: none did. `wrong`: what is
    damaged or gone on the mirror. `missing`: what this machine has to have besides, and has not."""

    record: MirrorRecord
    journal: JournalThere
    checkpoint: CheckpointThere | None
    files: int
    wrong: tuple[str, ...]
    missing: tuple[str, ...]


def restore(place: str, run_dir: Path, checkpoint: str = NEWEST, dry_run: bool = False) -> RestoredRun:
    """Bring back the mirror at `place` as `run_dir`. `checkpoint`: a step, `newest`, or `none`. `dry_run`: everything is fetched
    and compared, and nothing of it is kept.

    Raises UsageError: nothing was made. MirrorError, OSError, JournalError: the same command goes on where it ended.
    """
    if checkpoint not in (NEWEST, NONE) and not (checkpoint.isascii() and checkpoint.isdigit()):
        raise UsageError(f"--checkpoint {checkpoint}: is no step; write a number, newest or none")
    run_dir = run_dir.absolute()
    _refuse_occupied(run_dir)
    store, _ = open_mirror_at(place)
    aside = run_dir.with_name(f"{run_dir.name}{ASIDE}")
    ensure_run_dir(aside)
    try:
        done = _fetch(store, aside, checkpoint)
        if not dry_run:
            _take_up(store, aside, done)
            if run_dir.exists():
                run_dir.rmdir()
            os.rename(aside, run_dir)
            fsync_directory(run_dir.parent)
    finally:
        if dry_run:
            shutil.rmtree(aside, ignore_errors=True)
    return done


def _refuse_occupied(run_dir: Path) -> None:
    try:
        if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
            raise UsageError(f"{run_dir}: is not empty; a run is restored into a directory of its own, not there yet")
    except OSError as error:
        raise UsageError(f"{run_dir}: cannot be looked at: {error.strerror}; check the rights of this user") from error


def _fetch(store: Store, aside: Path, asked: str) -> RestoredRun:
    for name in (JOURNAL_NAME, f"{JOURNAL_NAME}-wal", f"{JOURNAL_NAME}-shm", HEAD_NAME):
        (aside / name).unlink(missing_ok=True)  # of a fetch that was cut off after the fact was written
    record, journal, whole, wrong = fetch_journal(store, aside)
    state = RunState()
    for _, at_s, _, kind, body in whole.rows:
        assert isinstance(at_s, float), "read_whole has checked the chain"
        assert isinstance(kind, str)
        assert isinstance(body, str)
        state = evolve(state, at_s, decode_fact(kind, body))
    chosen = _fetch_checkpoint(store, record, state, aside, asked, wrong)
    files = read_list(store, record.streams) if record.streams is not None else None
    if files is None:
        wrong.append(f"{store.where}: the list of files is damaged or gone: there are no streams, no logs and no {RUN_FILE_NAME}")
        files = {}
    wrong += fetch_files(store, files, aside)
    return RestoredRun(record, journal, chosen, len(files), tuple(wrong), _missing_here(aside))


def _fetch_checkpoint(
    store: Store, record: MirrorRecord, state: RunState, aside: Path, asked: str, wrong: list[str]
) -> CheckpointThere | None:
    """The one that is asked for; of `newest` the newest that holds."""
    good = whole_there(record, state)
    if asked == NONE:
        return None
    if asked != NEWEST:
        found = next((one for one in record.checkpoints if one.step == int(asked)), None)
        if found is None:
            steps = ", ".join(str(one.step) for one in record.checkpoints) or "none"
            raise UsageError(f"--checkpoint {asked}: is not on the mirror; there are: {steps}")
        fetch_checkpoint(store, found, aside)
        return found
    for one in reversed(good):
        try:
            fetch_checkpoint(store, one, aside)
        except MirrorError as error:
            wrong.append(f"checkpoint of step {one.step}: {error}")
            continue
        return one
    return None


def _take_up(store: Store, aside: Path, done: RestoredRun) -> None:
    """Make it a run that can go on. Raises UsageError where run.json is missing, JournalError, OSError."""
    if find_run_file(aside) is None:
        raise UsageError(
            f"{store.where}: its files did not come along ({'; '.join(done.wrong) or 'none were pushed yet'}), so there is no "
            f"{RUN_FILE_NAME}; the journal is in {aside / JOURNAL_NAME}: sentinel journal salvage --from can use it"
        )
    ended = "its machine was lost; the run was restored from its mirror"
    with Journal.open(aside / JOURNAL_NAME) as journal:
        state = RunState()
        for entry in journal.read_entries():
            state = evolve(state, entry.at_s, entry.fact)
        newest = max([state.next_attempt - 1, *_attempt_folders(aside)])
        steps = () if done.checkpoint is None else (done.checkpoint.step,)
        fact = RunRestored(store.where, done.journal.wall_s, socket.gethostname(), steps, newest)
        journal.append(journal.last_at_s(), [fact], journal.claim_epoch())
        numbers = {attempt.attempt for attempt in state.attempts if not attempt.is_over} | set(_attempt_folders(aside))
        for number in sorted(numbers):
            files = AttemptFiles.of(aside, number)
            ensure_directory(files.folder)
            if not files.exit.exists():
                write_report(files, ExitReport(None, (), None, ended))
        if missing := find_missing(aside, journal):
            raise SentinelError(f"{aside}: was fetched and is no whole run: {'; '.join(missing)}")


def _attempt_folders(run_dir: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(attempts_folder(run_dir)) if name.isascii() and name.isdigit()]
    except FileNotFoundError:
        return []


def _missing_here(aside: Path) -> tuple[str, ...]:
    """What the run needs of this machine, by its run.json, and is not there. The trainer's data nobody knows but the trainer."""
    run = find_run_file(aside)
    if run is None:
        return ()
    missing = []
    if not os.path.isdir(run.cwd):
        missing.append(f"the folder that its command is started in: {run.cwd}")
    came_along = bool(run.policy.source) and (aside / POLICIES / Path(run.policy.path).name).is_file()
    if os.path.sep in run.policy.path and not os.path.isfile(run.policy.path) and not came_along:
        missing.append(f"its policy: {run.policy.path} (or name another with --policy)")
    program = run.command[0] if run.command else ""
    if os.path.isabs(program) and not os.path.isfile(program):
        missing.append(f"its program: {program}")
    return tuple(missing)
