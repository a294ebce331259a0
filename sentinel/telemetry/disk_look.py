"""One look at the filesystems that a run writes to: room in bytes and inodes, and what its newest checkpoints take.

Every call here may hang for ever on a dead network filesystem, so only `disk_helper`, a process of its own, and whoever waits
with a deadline for it, looks. Quotas of a user or a directory are not seen where the filesystem does not show them in statvfs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sentinel.checkpoints.files import list_entries, read_taken, step_of_name
from sentinel.checkpoints.manifest import MANIFEST
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.clock import Clock, SystemClock
from sentinel.model.disks import CHECKPOINTS_PLACE, RUN_PLACE, TRAINER_PLACE, DiskReading, SavedCheckpoint

SAVES_MAX = 64  # the newest, of which the manifests are read

_Known = tuple[int, int, int]
Extent = tuple[int, int]  # bytes and files


class DiskLook:
    """Looks at the disks of one run; manifests that have not changed are not read again. `roots`: folders outside of the run
    directory that a trainer saves to."""

    def __init__(self, run_dir: Path, roots: Sequence[Path] = (), clock: Clock | None = None) -> None:
        self._run_dir = run_dir
        self._roots = tuple(roots)
        self._clock: Clock = SystemClock() if clock is None else clock
        self._extents: dict[str, tuple[_Known, Extent]] = {}

    def read(self) -> list[DiskReading]:
        """Each filesystem once, under the first that lies on it of: checkpoints, trainer's checkpoints, run directory.

        Raises OSError: it cannot be looked at now, which says nothing about the room there.
        """
        saves, count = self._saves()
        places = [(CHECKPOINTS_PLACE, self._run_dir / CHECKPOINTS)]
        places += [(TRAINER_PLACE, root) for root in self._roots]
        places += [(RUN_PLACE, self._run_dir)]
        found: dict[int, DiskReading] = {}
        for place, path in places:
            there = _existing(path)
            device = os.stat(there).st_dev
            if device not in found:
                gets_saves = place != RUN_PLACE
                found[device] = _room(place, there, saves if gets_saves else (), count if gets_saves else None)
        return list(found.values())

    def _saves(self) -> tuple[tuple[SavedCheckpoint, ...], int]:
        """The newest complete checkpoints, oldest first, and how many there are."""
        steps = sorted((step, name) for name in list_entries(self._run_dir) if (step := step_of_name(name)) is not None)
        marks: list[tuple[int, str, os.stat_result]] = []
        for step, name in steps:
            try:
                marks.append((step, name, os.stat(self._run_dir / CHECKPOINTS / name / MANIFEST)))
            except FileNotFoundError:
                continue  # a save under way, or one that was torn
        self._extents = {name: self._extents[name] for _, name, _ in marks if name in self._extents}
        wall_s = self._clock.wall_s()
        newest = sorted(marks, key=lambda mark: mark[2].st_mtime_ns)[-SAVES_MAX:]
        found = [(step, self._extent(name, mark), wall_s - mark.st_mtime) for step, name, mark in newest]
        saves = [SavedCheckpoint(step, extent[0], extent[1], age_s) for step, extent, age_s in found if extent is not None]
        return tuple(saves), len(marks)

    def _extent(self, name: str, mark: os.stat_result) -> Extent | None:
        known = (mark.st_mtime_ns, mark.st_ino, mark.st_size)
        if name in self._extents and self._extents[name][0] == known:
            return self._extents[name][1]
        extent = read_taken(self._run_dir / CHECKPOINTS / name)
        if extent is not None:
            self._extents[name] = (known, extent)
        return extent


def _room(place: str, path: Path, saves: tuple[SavedCheckpoint, ...], count: int | None) -> DiskReading:
    room = os.statvfs(path)
    inodes = None if room.f_files == 0 else room.f_favail  # btrfs and some network filesystems count none: unknown, not full
    total = room.f_blocks * room.f_frsize
    return DiskReading(place, _mount_point(path), room.f_bavail * room.f_frsize, total, inodes, saves, count)


def _existing(path: Path) -> Path:
    """The path behind its links, or what of it there is: a folder that is made later lies where its parent does."""
    here = Path(os.path.realpath(path))
    while not here.exists() and here != here.parent:
        here = here.parent
    return here


def _mount_point(path: Path) -> str:
    here = path
    while not os.path.ismount(here):
        here = here.parent
    return str(here)
