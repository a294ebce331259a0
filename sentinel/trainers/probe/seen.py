"""What a probe has seen: plain facts. The sentences are made in `text`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal

from sentinel.model.readings import Receipt, StepReading, TrainerNote
from sentinel.trainers.mismatch import Mismatch
from sentinel.trainers.renewed import Renewed

EndedBy = Literal["steps", "time", "exit", "person"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of the trainer. `status`: of its command, where it ended by itself. `tail`: the end of what it printed."""

    seconds: float
    ended_by: EndedBy
    status: int | None
    receipt: Receipt | None
    rows: tuple[StepReading, ...]
    notes: tuple[TrainerNote, ...]
    ranks: int
    tail: tuple[str, ...]

    @property
    def every_steps(self) -> int | None:
        """How far apart the rows are, in steps; None before there are two."""
        steps = sorted({row.step for row in self.rows})
        return int(median(b - a for a, b in pairwise(steps))) if len(steps) > 1 else None

    @property
    def numbering(self) -> Renewed:
        """Of its rows, in the order in which they came."""
        found = Renewed()
        for row in self.rows:
            found.take(row.step)
        return found

    @property
    def row_seconds(self) -> float | None:
        """How far apart the rows are, in seconds; None where they were all read at once."""
        if len(self.rows) < 2:
            return None
        seconds = (self.rows[-1].time_s - self.rows[0].time_s) / (len(self.rows) - 1)
        return seconds if seconds > 0.0 else None

    @property
    def metrics(self) -> dict[str, int]:
        """By name, in how many rows each came."""
        found: dict[str, int] = {}
        for row in self.rows:
            for name in row.metrics:
                found[name] = found.get(name, 0) + 1
        return found


@dataclass(frozen=True, slots=True)
class ProbedCheckpoint:
    """A checkpoint of the trainer. `how`: link, reflink or copy; None where it is not sealed. `missing`: of the files that
    tell it complete."""

    step: int
    name: str
    size: int
    is_complete: bool
    missing: tuple[str, ...]
    how: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Return:
    """A second start, from the checkpoint of `asked`. `began`: the step it went on from; None where no row told it. `refused`:
    the flags of the profile that it does not know, and died of."""

    asked: int
    began: int | None
    ended_by: EndedBy
    status: int | None
    tail: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """`saves_every`: the interval that was asked for, so that a checkpoint comes; None: the command's own. `mismatch`: why no
    checkpoint was found. `printed`: the formats of what was printed, by content. `left`: (folder, profile, name) of checkpoints
    that other profiles know. `refused`: the flags by which checkpoints were asked for and that it does not know; it was started
    again without them."""

    first: Launch
    saves_every: int | None
    kept: tuple[ProbedCheckpoint, ...]
    mismatch: Mismatch | None = None
    printed: tuple[str, ...] = ()
    left: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    back: Return | None = None
    refused: tuple[str, ...] = ()
