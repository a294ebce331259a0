"""A checkpoint's own numbers beside those of the stream around its step, for `plan/checkpoint_validation.py` to judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sentinel.checkpoints.files import list_checkpoints, read_checkpoint, read_numbers
from sentinel.checkpoints.recall import Recall
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.clock import SystemClock
from sentinel.errors import GiveUp
from sentinel.model.amounts import size_words
from sentinel.model.saved import How, ReadBack, SavedNorm, SavedNumbers
from sentinel.telemetry.lineage import read_history, read_own

NORM = "param_norm"
ROWS = 20


def verify_saved(
    run_dir: Path, path: Path, progressed: Callable[[], None] = lambda: None, how: How = "full", seed: str = ""
) -> SavedNumbers:
    """Check every byte and count the values that are not finite, then read the numbers of its manifest. With another `how`,
    what is remembered is read in samples drawn by `seed`, or not at all, and what was read is remembered.
    What is missing or damaged of the streams is left out. `progressed` is called after every block.

    Raises GiveUp with what is wrong with its bytes, OSError for what cannot be read now.
    """
    recall = Recall(run_dir, path.name, how, seed)
    saved = check_bytes(path, recall, progressed)
    numbers, found = read_numbers(path), read_checkpoint(run_dir, path.name)
    norm = None
    if found is not None and NORM in numbers:
        norm = SavedNorm(found.step, numbers[NORM], _recorded(run_dir, found.attempt, found.step))
    older = _older(run_dir, norm.step) if norm is not None else None
    return replace(saved, numbers=tuple(numbers.items()), norm=norm, older=older)


def check_bytes(
    path: Path, recall: Recall, progressed: Callable[[], None] = lambda: None, readers: int | None = None
) -> SavedNumbers:
    """The checkpoint as far as its own files tell, without the numbers of its manifest. Raises as `verify_saved`."""
    clock, counting = SystemClock(), Counting(path)
    began_s = clock.now_s()
    whole = verify_checkpoint(path, counting, progressed, readers, recall)
    recall.keep()
    if not whole.ok:
        raise GiveUp(whole.reason)
    read = recall.read_back(clock.now_s() - began_s)
    checked = whole.reason if read.read_files == read.files else read_words(read)
    return SavedNumbers(whole.digest or "", checked, values=counting.found(), read=read)


def read_words(read: ReadBack) -> str:
    """What exactly was read, where that is not all of it."""
    since = "" if read.since_s is None else f" since {when_words(read.since_s)}"
    parts = [f"{read.remembered_files} remembered{since}"] if read.remembered_files else []
    if read.sampled_files:
        parts.append(f"{read.sampled_files} unchanged{since} and read in samples")
    parts.append(f"{read.read_files or 'none'} read again")
    return f"{read.files} files, {size_words(read.bytes)}: {', '.join(parts)}; {size_words(read.read_bytes)} were read"


def when_words(wall_s: float) -> str:
    """A moment of this machine's own time: the day stands with it where it is not today."""
    now, then = datetime.fromtimestamp(SystemClock().wall_s()), datetime.fromtimestamp(wall_s)
    return then.strftime("%H:%M" if then.date() == now.date() else "%Y-%m-%d %H:%M")


def _older(run_dir: Path, step: int) -> SavedNorm | None:
    """The newest older checkpoint whose manifest has its norm."""
    try:
        below = [found for found in list_checkpoints(run_dir) if found.step < step]
    except OSError:
        return None
    for found in reversed(below[-ROWS:]):
        norm = read_numbers(run_dir / found.path).get(NORM)
        if norm is not None:
            return SavedNorm(found.step, norm, _recorded(run_dir, found.attempt, found.step))
    return None


def _recorded(run_dir: Path, attempt: int, step: int) -> tuple[tuple[int, float], ...]:
    """The last ROWS rows up to the step, and the one after it where every step is logged, as its maker and the attempts that one
    came from wrote them."""
    if attempt < 1:
        return ()  # the manifest names nobody
    start, own = read_own(run_dir, attempt, step + 1, ROWS + 1)
    rows = list(own)
    if len(rows) < ROWS:
        rows = [*read_history(run_dir, attempt, start, ROWS - len(rows)), *rows]
    return tuple((row.step, row.metrics[NORM]) for row in rows if NORM in row.metrics)
