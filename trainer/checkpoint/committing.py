"""The order in which a directory becomes a checkpoint (PROTOCOL.md 'Checkpoints'), and what stood in its place before."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentinel.client import dumps, ensure_directory, fsync_directory, loads, write_atomically

from ..exits import LeaseLostError
from .verifying import name_of


def make_aside(folder: Path, step: int) -> Path:
    """A directory of its own to write into, under a name that no reader takes for a checkpoint."""
    aside = hidden_name(folder, step)
    ensure_directory(aside)
    return aside


def hidden_name(folder: Path, step: int) -> Path:
    return folder / f".{name_of(step)}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def commit(here: Path, target: Path, manifest: dict[str, Any], may_commit: Callable[[], bool]) -> str:
    """Turn a finished directory into a checkpoint; the digest of its manifest. Raises LeaseLostError, OSError: nothing is then
    changed but the directory aside."""
    fsync_directory(here)
    text = (dumps(manifest) + "\n").encode()
    write_atomically(here / "manifest.json", text)
    if not may_commit():
        raise LeaseLostError(f"lease.json names a later attempt, so {target} is not committed; this one must end")
    if target.exists():
        _move_aside(target)
    os.rename(here, target)
    fsync_directory(target.parent)
    return hashlib.sha256(text).hexdigest()


def _move_aside(target: Path) -> None:
    """Make room for a checkpoint of this lineage: move one of an abandoned lineage into quarantine. Nothing is deleted."""
    try:
        attempt = int(loads((target / "manifest.json").read_bytes())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        attempt = 0
    try:
        _move(target, target.parent.parent / "quarantine" / f"attempt-{attempt:04d}")
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move(target, target.parent / ".quarantine" / f"attempt-{attempt:04d}")  # checkpoints/ is a link to another filesystem


def _move(target: Path, folder: Path) -> None:
    ensure_directory(folder)
    place, number = folder / target.name, 1
    while place.exists():
        number += 1
        place = folder / f"{target.name}.{number}"
    os.rename(target, place)
    fsync_directory(folder)
