"""A checkpoint that is to stay is read whole before an older one is deleted: what stays must be known to hold.

Beside training, one file at a time, and with the processor that others leave. What is remembered since it was last read, by size,
inode and both times of each file, is not read again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.checkpoints.files import read_checkpoint, read_committed, read_numbers
from sentinel.checkpoints.manifest import NotACheckpoint
from sentinel.checkpoints.pruning import prune_checkpoint
from sentinel.checkpoints.recall import Recall
from sentinel.errors import GiveUp
from sentinel.model.actions import PruneCheckpoint, ReadAnchor
from sentinel.model.readings import CheckpointRead
from sentinel.model.saved import SavedNumbers
from sentinel.plan.checkpoint_validation import judge_numbers
from sentinel.telemetry.saved_numbers import check_bytes

NICE = 19


def read_anchor(run_dir: Path, action: ReadAnchor, progressed: Callable[[], None] = lambda: None) -> CheckpointRead:
    """What it holds. Raises GiveUp where that is not known: it cannot be read now, or it is another one meanwhile."""
    name = Path(action.path).name
    found = read_checkpoint(run_dir, name)
    if found is None or found.digest != action.digest:
        raise GiveUp("it is not there as it was committed")
    try:
        saved = _read(run_dir, name, progressed)
    except GiveUp as damage:
        if not _is_still(run_dir, name, action.digest):  # moved aside while it was read, which looks like damage
            raise GiveUp("it is not there any more") from damage
        return CheckpointRead(action.step, action.digest, None, str(damage))
    except OSError as error:
        raise GiveUp(f"{error.strerror or error}") from error
    return CheckpointRead(action.step, action.digest, saved)


def prune_sound(run_dir: Path, action: PruneCheckpoint, progressed: Callable[[], None] = lambda: None) -> str:
    """Delete the checkpoint, as `prune_checkpoint` does, if what it is given up for is as it was when it was read whole."""
    _refuse_unsound(run_dir, action, progressed)
    return prune_checkpoint(run_dir, action.path, action.step, action.digest, action.anchors)


def _refuse_unsound(run_dir: Path, action: PruneCheckpoint, progressed: Callable[[], None]) -> None:
    """A deletion that was decided before this was asked names nothing that was read, and is refused."""
    if not action.sound:
        raise GiveUp(f"{action.path} is not deleted, for none of those that are kept was read whole")
    try:
        verdict = judge_numbers(_read(run_dir, Path(action.sound).name, progressed))
    except GiveUp as damage:
        raise GiveUp(f"{action.path} is not deleted, for what was read whole and is kept is damaged since: {damage}") from damage
    except OSError as error:
        raise GiveUp(f"{action.path} is not deleted, for {action.sound} cannot be read: {error.strerror or error}") from error
    if verdict.evidence:
        raise GiveUp(f"{action.path} is not deleted, for of {action.sound} {verdict.reason}")


def _read(run_dir: Path, name: str, progressed: Callable[[], None]) -> SavedNumbers:
    _behind()
    path = run_dir / "checkpoints" / name
    saved = check_bytes(path, Recall(run_dir, name, "remembered"), progressed, readers=1)
    return SavedNumbers(saved.digest, saved.checked, tuple(read_numbers(path).items()), values=saved.values, read=saved.read)


def _behind() -> None:
    """A thread of its own, which only deletes and reads for that, lets everybody else go first."""
    if threading.current_thread() is not threading.main_thread():
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _is_still(run_dir: Path, name: str, digest: str) -> bool:
    try:
        return read_committed(run_dir, name).digest == digest
    except (OSError, NotACheckpoint):
        return False
