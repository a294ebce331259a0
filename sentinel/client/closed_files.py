"""Files and folders that are as closed as the folder they are made in. Standard library only.

A run directory is 0700 (`sentinel run` makes it so), or 2750 where a team reads: the group may read and hands itself on. What is
made below it by the supervisor, the keeper and the trainers' client must be no wider, and in the second case no narrower, under
every umask:

    handle = open_closed(path, os.O_WRONLY | os.O_APPEND)
    with open(path, "ab", opener=closed) as file: ...
    make_folder(path)

Elsewhere (a run that nobody supervises, in a folder of the user's own) the umask decides as ever. The umask itself is never
touched: trainers inherit it, and their checkpoints are theirs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_FOLDER = 0o700
SHARED_FOLDER = 0o2750
_SHARED_MARK = 0o2077  # of these bits, a shared folder has 2050: one that the group may write is its owner's own matter
_FILE_BITS = 0o644


def is_shared(mode: int) -> bool:
    """Whether a folder of this mode is one that its group reads, and nobody else."""
    return mode & _SHARED_MARK == 0o2050


def open_closed(path: str | os.PathLike[str], flags: int) -> int:
    """`os.open`, which makes the file where it is not there. Raises OSError."""
    folder = stat.S_IMODE(os.stat(os.path.dirname(os.fspath(path)) or ".").st_mode)
    wanted = folder & _FILE_BITS
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, wanted)
    if is_shared(folder):
        _open_to_group(handle, wanted)
    return handle


def closed(path: str, flags: int) -> int:
    """An `opener` for `open`."""
    return open_closed(path, flags)


def make_folder(path: Path) -> None:
    """One folder, unless it is there. Raises OSError: FileNotFoundError where the one above it is missing."""
    above = stat.S_IMODE(path.parent.stat().st_mode)
    try:
        path.mkdir(mode=above & 0o755)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    if is_shared(above):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _open_to_group(handle, SHARED_FOLDER)
        finally:
            os.close(handle)


def _open_to_group(handle: int, wanted: int) -> None:
    """What a narrow umask took. Not of a file that somebody else made."""
    status = os.fstat(handle)
    if stat.S_IMODE(status.st_mode) != wanted and status.st_uid == os.geteuid():
        os.fchmod(handle, wanted)
