"""Deleting a checkpoint that was given up: first renamed to `checkpoints/.pruned-…`, so that half of one never looks whole.

Whatever is called so is no checkpoint and belongs to nobody; what could not be deleted the first time goes with the next.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from sentinel.checkpoints.files import PRUNED, is_there, read_checkpoint, step_of_name
from sentinel.checkpoints.manifest import find_missing_files
from sentinel.client.atomic_file import fsync_directory
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.errors import GiveUp

SWEPT_MAX = 64  # left over from before, that are deleted in one go


def prune_checkpoint(run_dir: Path, path: str, step: int, digest: str, anchors: Sequence[str] = ()) -> str:
    """Delete the checkpoint `path` of the run if its manifest has this digest. Done twice, it deletes nothing more.

    `anchors`: paths of those that are kept instead; each has to hold all that its manifest lists, by name and size. Returns what
    of it is still to be deleted, empty when nothing is. Raises GiveUp when it is not taken away: it has changed, an anchor is not
    whole, or it cannot be renamed now. That is not tried again here, for the run may need it by then: whoever decides, does anew.
    """
    name = path.removeprefix(f"{CHECKPOINTS}/")
    if path != f"{CHECKPOINTS}/{name}" or step_of_name(name) != step:
        raise GiveUp(f"{path} is no checkpoint of step {step} of this run")
    for anchor in anchors:
        if missing := find_missing_files(run_dir / anchor):
            raise GiveUp(f"{path} is not deleted, for of those that are kept {missing}")
    try:
        _take_away(run_dir, name, digest)
    except OSError as error:
        raise GiveUp(f"{path} cannot be taken away: {error.strerror or error}") from error
    return _sweep(run_dir / CHECKPOINTS)


def _take_away(run_dir: Path, name: str, digest: str) -> None:
    """One rename; none where it was taken away before, though another may bear its name by now."""
    source, aside = run_dir / CHECKPOINTS / name, run_dir / CHECKPOINTS / f"{PRUNED}{name}-{digest[:12]}"
    if is_there(source) and not is_there(aside):
        _judge(run_dir, source, digest)
        os.rename(source, aside)
        fsync_directory(aside.parent)


def _judge(run_dir: Path, source: Path, digest: str) -> None:
    """Raises GiveUp for anything but the very checkpoint that was given up."""
    if source.is_symlink():
        raise GiveUp(f"{CHECKPOINTS}/{source.name} is a link, and what it leads to may be somebody else's")
    found = read_checkpoint(run_dir, source.name)
    if found is None:
        raise GiveUp(f"{CHECKPOINTS}/{source.name} has no manifest of its own that can be read now")
    if found.digest != digest:
        raise GiveUp(f"{CHECKPOINTS}/{source.name} is not the one that was given up: its manifest has changed since")


def _sweep(folder: Path) -> str:
    """Delete all that was taken away, this time or before; what cannot be stays hidden, and is tried again the next time."""
    problem = ""
    try:
        with os.scandir(folder) as entries:
            doomed = [entry.path for entry in entries if entry.name.startswith(PRUNED)][:SWEPT_MAX]
    except OSError as error:
        return f"{folder}: cannot be looked through for what was taken away: {error.strerror}"
    for place in doomed:
        try:
            shutil.rmtree(place)
        except FileNotFoundError:
            continue  # a second supervisor's work
        except OSError as error:
            problem = f"{place} was taken away and cannot be deleted yet: {error.strerror}; tried again with the next one"
    return problem
