"""The disks that a run writes to, as readings."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINTS_PLACE, TRAINER_PLACE, RUN_PLACE = PLACES = ("checkpoints", "trainer's checkpoints", "run directory")


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A complete checkpoint as it lies on its disk. `bytes`, `files`: as its manifest says, and of each file no
    more than it holds. `age_s`: since its manifest was
    written, when the disk was looked at."""

    step: int
    bytes: int
    files: int
    age_s: float


@dataclass(frozen=True, slots=True)
class DiskReading:
    """The room on one filesystem that the run writes to, reported at every look.

    Attributes:
        place: what of the run lies there, the first of PLACES that does.
        mount: its mount point.
        free_bytes, total_bytes, free_inodes: what this user may still take; inodes None where the filesystem counts none.
        count: complete checkpoints that lie in RUN_DIR/checkpoints, and `saves` the newest of them, oldest first. None and empty
            for a filesystem that gets no checkpoint.
    """

    place: str
    mount: str
    free_bytes: int
    total_bytes: int
    free_inodes: int | None = None
    saves: tuple[SavedCheckpoint, ...] = ()
    count: int | None = None
