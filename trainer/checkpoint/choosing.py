"""Which checkpoint a run continues from: the one asked for, or the newest older one that can be trusted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sentinel.client import Resume

from ..exits import DataError
from .verifying import Read, Verified, list_steps, name_of, read_manifest, verify


def discard_unfinished(root: Path) -> None:
    """Remove the directories of saves that never committed and of checkpoints that were being pruned. Call it only where no
    other process can be writing to this run."""
    for leftover in (root / "checkpoints").glob(".step-*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)


def choose_resume(
    root: Path, requested: Resume | None, below: int | None = None, read: Read | None = None
) -> tuple[Verified | None, list[dict[str, Any]]]:
    """The checkpoint to continue from and why others were passed over: the requested one, else the newest verified older one.

    `requested` None means the newest there is (a run without a supervisor); then there may be none. Raises DataError if a
    checkpoint was requested and neither it nor an older one can be trusted. `below`: only checkpoints older than this step.
    `read`: as `verify` takes it.
    """
    refused: list[dict[str, Any]] = []
    candidates = [entry for entry in _candidates(root, requested) if below is None or entry[1] < below]
    for path, step, digest in candidates:
        try:
            is_asked = requested is not None and (step, digest) == (requested.step, requested.digest)
            found = verify(path, digest, digest if is_asked and requested is not None and requested.verified else None, read)
            if found.step != step:
                raise DataError(f"{path}: its manifest is of step {found.step}")
            return found, refused
        except DataError as error:
            refused.append({"step": step, "reason": str(error)})
    if requested is None and below is None and not refused:
        return None, refused
    why = f"; the first refusal: {refused[0]['reason']}" if refused else f": none is older than step {below}, which was refused"
    raise DataError(
        f"no checkpoint under {root / 'checkpoints'} can be trusted{why}. Restore one, or start from scratch (resume null)"
    )


def stored_padding(root: Path, requested: Resume | None) -> int | None:
    """The padded vocabulary of the run that a resume continues, before any model is built: a resume on another number of ranks
    keeps the first launch's. None where there is nothing to continue, or no manifest records it.

    Every checkpoint of a run has the same one, so the first readable manifest serves; which checkpoint can be trusted is found
    out later. One rank calls it and broadcasts the result: two ranks might read two different answers.
    """
    for path, _, _ in _candidates(root, requested):
        try:
            padded = read_manifest(path).manifest.get("padded_vocab")
        except DataError:
            continue
        if isinstance(padded, int):
            return padded
    return None


def _candidates(root: Path, requested: Resume | None) -> list[tuple[Path, int, str | None]]:
    """(path, step, digest if one was named), in the order in which they are tried."""
    folder = root / "checkpoints"
    newest_first = [(folder / name_of(step), step, None) for step in reversed(list_steps(folder))]
    if requested is None:
        return list(newest_first)
    return [
        (root / requested.path, requested.step, requested.digest),
        *(entry for entry in newest_first if entry[1] < requested.step),
    ]
