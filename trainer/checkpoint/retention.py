"""Which checkpoints a run without a supervisor keeps. A supervised trainer deletes nothing: sentinel prunes, by the same rule."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sentinel.client import fsync_directory

from .committing import hidden_name
from .verifying import list_steps, name_of


@dataclass(frozen=True)
class Retention:
    """Keep the newest `last`, and for ever each whose step is a multiple of `every`."""

    last: int
    every: int | None = None

    def prune(self, folder: Path, committed: int) -> list[int]:
        """Delete below the checkpoint just committed what need not be kept; the steps deleted.

        What lies above it is of a lineage that was left, and makes none of this one superfluous. A checkpoint gets a hidden name
        before its files go: a crash half-way leaves no half checkpoint, and the next launch discards what is left.
        """
        steps = to_prune([step for step in list_steps(folder) if step <= committed], self.last, self.every)
        hidden = [hidden_name(folder, step) for step in steps]
        for step, place in zip(steps, hidden, strict=True):
            os.rename(folder / name_of(step), place)
        if hidden:
            fsync_directory(folder)
        for place in hidden:
            shutil.rmtree(place, ignore_errors=True)  # what stays has no name of a checkpoint
        return steps


def to_prune(steps: Iterable[int], keep_last: int, keep_every: int | None) -> list[int]:
    """The steps to delete, rising: all but the newest `keep_last`, at least one, and the multiples of `keep_every`."""
    assert keep_last >= 1
    rising = sorted(set(steps))
    kept = set(rising[-keep_last:])
    return [step for step in rising if step not in kept and not (keep_every and step % keep_every == 0)]
