"""checkpoints/ and quarantine/ of the simulated run directory.

A checkpoint is what its trainer put into it, down to the damage in its weights; a bit may rot without anybody noticing until
its digests are compared. A save in progress is a directory without a manifest: no checkpoint, but in the way.
"""

from __future__ import annotations

import errno
import hashlib
from dataclasses import dataclass, field

from sentinel.errors import GiveUp
from sentinel.model.readings import CheckpointReading
from sentinel.sim.data_order import Orders
from sentinel.sim.learning import Weights, param_norm

CHECKPOINT_BYTES = 1 << 30
LOST_SHARD = 0.9  # of a norm: what is left of it where a fifth of the parameters was not saved
KILLED_BY_LOAD = "UnpicklingError: invalid load key"
NONE_TO_TRUST = "DataError: no checkpoint under checkpoints can be trusted"
REFUSED = "what was loaded is not what its manifest says"


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
    bent: float = 1.0  # the norm of its parameters, over a healthy run's
    lies: str = ""  # how its numbers are wrong: norm | finite | load
    kills_after: int | None = None  # whoever resumes from it dies so many steps later
    orders: Orders = ()
    path: str = ""
    digest: str = ""  # of the manifest, which no rot has touched

    def __post_init__(self) -> None:
        self.path = f"checkpoints/step-{self.step:08d}"
        text = f"{self.step}/{self.attempt}/{self.cursor}/{self.committed_s!r}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()

    def kills(self, step: int) -> bool:
        """Whether a trainer that resumed from it dies when it stands at this step."""
        return self.kills_after is not None and step - self.step == self.kills_after

    @property
    def is_whole(self) -> bool:
        return not self.is_rotten and not self.lies

    @property
    def numbers(self) -> tuple[tuple[str, float], ...]:
        """What its manifest says of the state in it."""
        norm = param_norm(self.step + 1, self.weights) * self.bent
        ruined = float(norm - norm != 0.0)
        count = 3.0 if self.lies == "finite" else ruined
        return (("param_norm", norm * (LOST_SHARD if self.lies == "norm" else 1.0)), ("nonfinite", count))

    def reading(self) -> CheckpointReading:
        return CheckpointReading(self.step, self.path, self.attempt, self.cursor, self.digest)


@dataclass
class SimStore:
    """Attributes:
    committed: by step, what lies in checkpoints/ under its final name.
    unfinished: attempts (by number) whose save is being written, or was torn.
    quarantined: in the order they were moved. pruned: those that were deleted; none of them is ever seen again.
    rots: steps whose next checkpoint rots as soon as it is committed.
    version: counts changes of the directory, as its mtime would.
    outages: how many faults keep every file in it from being read now.
    """

    committed: dict[int, SimCheckpoint] = field(default_factory=dict)
    unfinished: set[tuple[int, int]] = field(default_factory=set)
    quarantined: list[SimCheckpoint] = field(default_factory=list)
    pruned: list[SimCheckpoint] = field(default_factory=list)
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

    def prune(self, step: int, digest: str) -> bool:
        """Delete it if it is the one that is meant; False where it is gone. OSError while nothing can be read."""
        if self.outages:
            raise OSError(errno.ESTALE, "Stale file handle", f"checkpoints/step-{step:08d}")
        found = self.committed.get(step)
        if found is None:
            return False
        if found.digest != digest:
            raise GiveUp(f"{found.path} is not the one that was given up: its manifest has changed since")
        self.pruned.append(self.committed.pop(step))
        self.version += 1
        return True

    def sweep_unfinished(self) -> int:
        """Move unfinished saves aside; how many there were."""
        count = len(self.unfinished)
        self.unfinished.clear()
        self.version += 1 if count else 0
        return count

    def choose_resume(self, step: int, digest: str | None, vouched: str | None = None) -> SimCheckpoint | None:
        """As the trainer does: what was asked for if it verifies and is what its manifest says, else the newest older one. It
        reads no byte of the one whose manifest has the digest `vouched`."""
        for candidate in sorted((known for known in self.committed if known <= step), reverse=True):
            found = self.committed[candidate]
            is_asked = candidate == step
            is_read_whole = not found.is_rotten or (is_asked and found.digest == vouched)
            if is_read_whole and found.lies != "load" and not (is_asked and digest is not None and digest != found.digest):
                return found
        return None
