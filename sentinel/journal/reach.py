"""A run directory that cannot be reached for a while: a ticket that ran out, a parent folder that was moved or closed, a mount
that went away. That is no damage of the journal: what was written lies where it lay, and is looked at when it is back.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sentinel.client.disk_trouble import in_words, is_of_disk
from sentinel.client.run_layout import JOURNAL_NAME, RUN_FILE_NAME
from sentinel.errors import JournalBlocked, OutOfReach

_RIGHTS = errno.EACCES, errno.EPERM
_ABSENT = errno.ENOENT, errno.ENOTDIR


def find_out_of_reach(run_dir: Path, *, is_new: bool = False) -> OutOfReach | None:
    """None where the directory of the run can be looked into now and holds a run, or what is left of one. `is_new`: it may be one
    that holds none yet."""
    try:
        names = set(os.listdir(run_dir))
        os.stat(run_dir / ".")  # listing needs the right to read alone
    except OSError as error:
        return _out_of_reach(run_dir, in_words(error))
    if is_new or names & {RUN_FILE_NAME, JOURNAL_NAME}:
        return None
    return _out_of_reach(run_dir, f"another directory lies under its name, without {RUN_FILE_NAME}; is its filesystem mounted?")


def refuse_out_of_reach(run_dir: Path) -> None:
    """Raises OutOfReach. Call it of a run that was here before: a new one has no files yet."""
    found = find_out_of_reach(run_dir)
    if found is not None:
        raise found


def may_pass(path: Path, error: OSError) -> JournalBlocked | None:
    """`error` of `path` in a run directory, as trouble to wait out; None where waiting cannot help: the file alone is gone.

    A directory that was away may be back by now, so that rights alone are taken for passing without another look.
    """
    if is_of_disk(error):
        return JournalBlocked(f"{path}: {in_words(error)}")
    if error.errno not in _RIGHTS + _ABSENT:
        return None
    away = find_out_of_reach(path.parent)
    if away is None and (error.errno in _RIGHTS or os.path.lexists(path)):
        return _out_of_reach(path.parent, in_words(error))
    return away


def raised_within(run_dir: Path, error: OSError) -> JournalBlocked | None:
    """The same of an error that names a path in the run directory, or its own; None for any other error."""
    if error.filename is None:
        return find_out_of_reach(run_dir)
    path = Path(os.fsdecode(error.filename))
    roots = {run_dir, Path(os.path.realpath(run_dir))}
    if not roots & {path, *path.parents}:
        return None
    if error.errno in _RIGHTS:
        return _out_of_reach(run_dir, in_words(error))
    return JournalBlocked(f"{path}: {in_words(error)}") if is_of_disk(error) else find_out_of_reach(run_dir)


def _out_of_reach(run_dir: Path, why: str) -> OutOfReach:
    return OutOfReach(f"{run_dir}: the run directory cannot be reached: {why}")
