"""checkpoints/ and quarantine/ of the simulated run directory.

A checkpoint is what its trainer put into it, down to the damage in its weights; a bit may rot without anybody noticing until
its digests are compared. A save in progress is a directory without a manifest: no checkpoint, but in the way.
"""

from __future__ import annotations

import errno
import hashlib
from dataclasses import dataclass, field

from sentinel.model.readings import CheckpointReading
from sentinel.sim.learning import Weights
from sentinel.sim.order import Orders


@dataclass(slots=True)
class SimCheckpoint:
    """What lies in one checkpoint directory; identity is the object, as a directory's is its inode."""

    step: int
    attempt: int
    cursor: int
    skip: tuple[tuple[int, int], ...]
    weights: Weights
    skipped_in_row: int
    committed_s: float
    is_rotten: bool = False
    orders: Orders = ()

    path: str = ""
    digest: str = ""  # of the manifest, which no rot has touched

    def __post_init__(self) -> None:
        self.path = f"checkpoints/step-{self.step:08d}"
        text = f"{self.step}/{self.attempt}/{self.cursor}/{self.committed_s!r}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()

    def reading(self) -> CheckpointReading:
        return CheckpointReading(self.step, self.path, self.attempt, self.cursor, self.digest)


@dataclass
class Store:
    """Attributes:
    committed: by step, what lies in checkpoints/ under its final name.
    unfinished: attempts (by number) whose save is being written, or was torn.
    quarantined: in the order they were moved.
    rots: steps whose next checkpoint rots as soon as it is committed.
    version: counts changes of the directory, as its mtime would.
    outages: how many faults keep every file in it from being read now.
    """

    committed: dict[int, SimCheckpoint] = field(default_factory=dict)
    unfinished: set[tuple[int, int]] = field(default_factory=set)
    quarantined: list[SimCheckpoint] = field(default_factory=list)
    version: int = 0
    outages: int = 0

    def begin_save(self, attempt: int, step: int) -> None:
        self.unfinished.add((attempt, step))
        self.version += 1

    def commit(self, checkpoint: SimCheckpoint) -> None:
        """The rename. One of an abandoned lineage in its place is moved aside, as the trainer does."""
        self.unfinished.discard((checkpoint.attempt, checkpoint.step))
        old = self.committed.pop(checkpoint.step, None)
        if old is not None:
            self.quarantined.append(old)
        self.committed[checkpoint.step] = checkpoint
        self.version += 1

    def verify(self, step: int) -> tuple[bool, str]:
        """Whether every byte is as the manifest says, and the digest or the reason. OSError while nothing can be read."""
        if self.outages:
            raise OSError(errno.ESTALE, "Stale file handle", f"checkpoints/step-{step:08d}")
        found = self.committed.get(step)
        if found is None:
            return False, f"checkpoints/step-{step:08d}/manifest.json: cannot be read (No such file or directory)"
        if found.is_rotten:
            return False, f"{found.path}/shard-0: sha256 is 0bad0bad0bad…, the manifest says otherwise"
        return True, found.digest

    def above(self, step: int) -> tuple[int, ...]:
        return tuple(sorted(known for known in self.committed if known > step))

    def quarantine(self, step: int) -> None:
        """Move one checkpoint aside."""
        self.quarantined.append(self.committed.pop(step))
        self.version += 1

    def sweep_unfinished(self) -> int:
        """Move unfinished saves aside; how many there were."""
        count = len(self.unfinished)
        self.unfinished.clear()
        self.version += 1 if count else 0
        return count

    def choose_resume(self, step: int, digest: str | None) -> SimCheckpoint | None:
        """As the trainer does: what was asked for if it verifies, else the newest older one that does."""
        for candidate in sorted((known for known in self.committed if known <= step), reverse=True):
            found = self.committed[candidate]
            is_asked = candidate == step
            if not found.is_rotten and not (is_asked and digest is not None and digest != found.digest):
                return found
        return None
