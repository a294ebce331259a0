"""A checkpoint's own numbers beside those of the stream around its step, for `plan/checkpoint_validation.py` to judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentinel.checkpoints.files import list_checkpoints, read_checkpoint, read_numbers
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.errors import GiveUp
from sentinel.model.records import SavedNorm, SavedNumbers
from sentinel.telemetry.lineage import read_history, read_own

NORM = "param_norm"
ROWS = 20


def verify_saved(run_dir: Path, path: Path, progressed: Callable[[], None] = lambda: None) -> SavedNumbers:
    """Check every byte and count the values that are not finite, then read the numbers of its manifest.
    What is missing or damaged of the streams is left out. `progressed` is called after every block.

    Raises GiveUp with what is wrong with its bytes, OSError for what cannot be read now.
    """
    counting = Counting(path)
    whole = verify_checkpoint(path, counting, progressed)
    if not whole.ok:
        raise GiveUp(whole.reason)
    numbers, found = read_numbers(path), read_checkpoint(run_dir, path.name)
    norm = None
    if found is not None and NORM in numbers:
        norm = SavedNorm(found.step, numbers[NORM], _recorded(run_dir, found.attempt, found.step))
    older = _older(run_dir, norm.step) if norm is not None else None
    return SavedNumbers(whole.digest or "", whole.reason, tuple(numbers.items()), norm, older, counting.found())


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
