"""Replace a whole file so that a reader, or a power cut, sees the old content or the new one and nothing between."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from sentinel.client.closed_files import make_folder, open_closed

_NEVER_MADE: set[Path] = set()


def never_make(folder: Path) -> None:
    """This process makes the folder in no way from now on, and nothing below it while it is not there. A run directory that was
    moved away, or whose filesystem is gone, would else come to be anew under its name by the next file that is written there."""
    _NEVER_MADE.update((folder.absolute(), Path(os.path.realpath(folder))))


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write aside in the same directory, fsync, rename, fsync the directory. Creates the directory if it is missing.

    `durable=False` leaves out both fsyncs: still never half a file, but it may be lost with the machine (heartbeats).
    Raises OSError; the old file is then untouched and the aside file is removed.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        handle = open_closed(aside, os.O_WRONLY | os.O_TRUNC)
    except FileNotFoundError:
        ensure_directory(path.parent)
        handle = open_closed(aside, os.O_WRONLY | os.O_TRUNC)
    try:
        try:
            write_fully(handle, data)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    if durable:
        fsync_directory(path.parent)


def ensure_directory(path: Path) -> None:
    """mkdir -p that survives a power cut: what is fsynced inside a directory is lost with it unless its own name is durable."""
    ensure_directories((path,))


def ensure_directories(paths: Iterable[Path]) -> None:
    """The same for several: each directory above them is synced once, however many were made in it."""
    for folder in make_directories(paths):
        fsync_directory(folder)


def make_directories(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The same without a sync: the directories in which one was made, the upper ones first, for whoever syncs them later."""
    above: dict[Path, None] = {}
    for path in paths:
        _make(path, above)
    return tuple(above)


def _make(path: Path, above: dict[Path, None]) -> None:
    """`above`: directories in which one was made, the upper ones first."""
    if path.is_dir():
        return
    if path.absolute() in _NEVER_MADE:
        raise FileNotFoundError(errno.ENOENT, "the run directory is not there, and is not made anew", str(path))
    _make(path.parent, above)
    make_folder(path)
    above[path.parent] = None


def write_fully(handle: int, data: bytes) -> None:
    """os.write until everything is written: one call unless the disk is full or a signal cuts it short."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable: a rename survives a power cut only after this."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
