"""The run directory itself: who may read it. A new one is its owner's alone, or also a group's (`--share-with`).

What is made in it follows it (`client.closed_files`). One that is there already stays as it is: its owner may have meant it.
"""

from __future__ import annotations

import grp
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import never_make
from sentinel.client.closed_files import PRIVATE_FOLDER, SHARED_FOLDER, is_shared
from sentinel.errors import UsageError


@dataclass(frozen=True, slots=True)
class ReadingGroup:
    """A group of this machine that reads a run."""

    name: str
    gid: int


def find_group(name: str | None) -> ReadingGroup | None:
    """The group that `--share-with` names; None where it names none.

    Raises:
        UsageError: there is no such group, or this user is no member of it and could not give it anything.
    """
    if name is None:
        return None
    try:
        found = grp.getgrnam(name)
    except KeyError:
        raise UsageError(f"--share-with {name}: there is no such group on this machine; getent group lists them") from None
    if os.geteuid() != 0 and found.gr_gid not in (os.getegid(), *os.getgroups()):
        raise UsageError(
            f"--share-with {name}: this user is no member of it; name one of its own groups (id -Gn), or have it added and log "
            "in anew"
        )
    return ReadingGroup(name, found.gr_gid)


def ensure_run_dir(run_dir: Path, group: ReadingGroup | None = None) -> Path:
    """Create the directory unless it is there, 0700, or 2750 for the group; its absolute path. From then on this process makes it
    no more: should it go away, it is waited for.

    Raises:
        UsageError: it cannot be created, is no directory, cannot be written, or is there and not shared with the group.
    """
    run_dir = run_dir.absolute()
    try:
        if not run_dir.parent.exists():
            run_dir.parent.mkdir(parents=True, exist_ok=True)
        _make(run_dir, group)
    except FileExistsError:
        raise UsageError(f"{run_dir}: is a file; a run needs a directory of its own") from None
    except OSError as error:
        raise UsageError(f"{run_dir}: cannot be created: {error.strerror}; choose a directory this user may write to") from error
    if not os.access(run_dir, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError(f"{run_dir}: cannot be written by this user; choose another directory or change its rights")
    never_make(run_dir)
    return run_dir


def _make(run_dir: Path, group: ReadingGroup | None) -> None:
    try:
        run_dir.mkdir(mode=PRIVATE_FOLDER)
    except FileExistsError:
        if not run_dir.is_dir():
            raise
        if group is not None and not _is_shared_with(run_dir, group):
            _refuse_unless_empty(run_dir, group)
            _share(run_dir, group)
        return
    run_dir.chmod(PRIVATE_FOLDER)  # whatever the umask, and a setgid folder above it, made of that
    if group is not None:
        _share(run_dir, group)


def _share(run_dir: Path, group: ReadingGroup) -> None:
    os.chown(run_dir, -1, group.gid)
    run_dir.chmod(SHARED_FOLDER)


def _is_shared_with(run_dir: Path, group: ReadingGroup) -> bool:
    status = run_dir.stat()
    return status.st_gid == group.gid and is_shared(status.st_mode)


def _refuse_unless_empty(run_dir: Path, group: ReadingGroup) -> None:
    """An empty one is made what was asked for; what lies in another may be somebody's own decision."""
    if any(run_dir.iterdir()):
        place, name = shlex.quote(str(run_dir)), shlex.quote(group.name)
        raise UsageError(
            f"--share-with {group.name}: {run_dir} is there and not shared with it, and sentinel does not change the rights of "
            f"what lies in it. Share it so: chgrp -R {name} {place} && chmod -R u=rwX,g=rX,o= {place} && "
            f"find {place} -type d -exec chmod g+s {{}} +"
        )


def who_else_reads(run_dir: Path) -> str:
    """A sentence with the remedy where others than the owner, or than a group it is shared with, can look into it; else empty."""
    mode = stat.S_IMODE(run_dir.stat().st_mode)
    if not mode & 0o077 or is_shared(mode):
        return ""
    return (
        f"{run_dir}: others than you can look into it (mode {mode:o}), and it holds the command and logs as they are; "
        f"close it: chmod 700 {shlex.quote(str(run_dir))}"
    )
