"""From the rows of a trainer that knows nothing of Sentinel to the stream of its attempt.

The receipt waits for the second row, since only then is it known where the trainer began: it goes on at the step before the first
row, less the distance of two rows.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sentinel.client.stream import Stream
from sentinel.model.attempts import SampleRange
from sentinel.model.readings import StepReading
from sentinel.plan.overrides import ranges_of
from sentinel.plan.proving import size_within
from sentinel.run_files.stream import read_receipt
from sentinel.telemetry.lineage import read_own
from sentinel.trainers.rendering import may_end_early, total_steps
from sentinel.trainers.renewed import Renewed
from sentinel.trainers.spec import TrainerSpec

NEWEST = 2**53
FIRST_ROW_ALONE_S = 120.0  # after which a receipt is written from one row
FIRST_BLOCK_ALONE_S = 2.0  # after which one is written from rows that all came at once


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that one look found, and when that was (Unix time)."""

    rows: list[StepReading]
    seen_s: float


@dataclass
class Writer:
    """From rows to the stream of the attempt. `waiting`: what came before the receipt. `wall_s`: Unix time."""

    stream: Stream
    spec: TrainerSpec
    wall_s: Callable[[], float] = time.time
    waiting: list[Batch] = field(default_factory=list)
    since_s: float = 0.0
    newest: int = -1
    resume_step: int | None = None
    passed: int = -1  # newest step that a follower before this one wrote
    numbering: Renewed = field(default_factory=Renewed)
    _has_remarked: bool = False  # that the numbers begin anew
    _every: int = 1
    _wrote_s: float = field(init=False)  # of the last look that found rows; before the first: the beginning

    def __post_init__(self) -> None:
        self._wrote_s = self.wall_s()

    def recall(self, run_dir: Path, attempt: int) -> None:
        """Go on where a follower of the same attempt ended that died: its rows come again, and are passed over."""
        receipt = read_receipt(run_dir, attempt)
        if receipt is None:
            return
        _, rows = read_own(run_dir, attempt, NEWEST, 2)
        self.resume_step = receipt.resume_step
        self.passed = self.newest = rows[-1].step if rows else receipt.resume_step
        self._every = max(1, rows[-1].step - rows[-2].step) if len(rows) > 1 else 1

    def take(self, rows: list[StepReading], now_s: float) -> None:
        """Write them, or hold them until it is known where the trainer began."""
        if self.spec.profile.spec.metrics.first_step == 0:
            rows = [replace(row, step=row.step + 1) for row in rows]
        for row in rows:
            self.numbering.take(row.step)
        rows = [row for row in rows if row.step > self.passed]
        if self.resume_step is not None:
            self._write(rows, self.wall_s())
            return
        if rows:
            self.since_s = self.since_s if self.waiting else now_s
            self.waiting.append(Batch(rows, self.wall_s()))
        if not self.waiting:
            return
        is_block = len(self.waiting) == 1 and len(self.waiting[0].rows) > 1
        patience_s = FIRST_BLOCK_ALONE_S if is_block else 0.0
        if self._distance(self._steps_waiting) is None:
            patience_s = FIRST_ROW_ALONE_S
        if now_s - self.since_s >= patience_s:
            self.begin()

    def begin(self) -> None:
        """Write the receipt, and what waited for it. Without a row there is none: nobody knows where the trainer began."""
        steps = self._steps_waiting
        if not steps or self.resume_step is not None:
            return
        first = steps[0]
        self._every = self._distance(steps) or (steps[1] - first if len(steps) > 1 else 1)
        asked = self.spec.resume_step or 0
        trained = first - asked - size_within(self._costing, asked, first - 1)
        self.resume_step = asked if asked < max(first, 1) and trained <= self._every else max(0, first - self._every)
        self.stream.start(
            resume_step=self.resume_step,
            resume_digest=None,
            world_size=_world_size(),
            params=0,
            tokens_per_step=None,
            effective={},
            overrides=self.spec.asserted,
            cursor=self.resume_step,
            samples_from_steps=self._is_reckoned,
            steps=total_steps(self.spec.profile.spec, self.spec.argv) if len(steps) > 1 else None,
            may_end_early=may_end_early(self.spec.profile.spec, self.spec.argv),
            trainer=self.spec.profile.metadata.name,
            adopted=self.spec.resume_step is None and (self.spec.is_first or self.spec.profile.spec.checkpoints is None),
        )
        waiting, self.waiting = self.waiting, []
        self._wrote_s = self._first_began_s(waiting)
        for batch in waiting:
            self._write(batch.rows, batch.seen_s)

    @property
    def _steps_waiting(self) -> list[int]:
        return sorted({row.step for batch in self.waiting for row in batch.rows})

    def _first_began_s(self, waiting: list[Batch]) -> float:
        """When the steps of the first batch began. Of the time before it an import and a compilation took a part that nobody
        knows: where later rows show how long one takes, theirs took as long."""
        first, *later = waiting
        if not later:
            return self._wrote_s
        row_s = (later[-1].seen_s - first.seen_s) / sum(len(batch.rows) for batch in later)
        return max(self._wrote_s, first.seen_s - row_s * len(first.rows))

    def _distance(self, steps: list[int]) -> int | None:
        """Of two rows between which nothing was to be left out; None where there are none such yet."""
        pairs = itertools.pairwise(steps)
        return next((b - a for a, b in pairs if not size_within(self._costing, a, b - 1)), None)

    @property
    def _costing(self) -> tuple[SampleRange, ...]:
        """Batches that take their step with them when they are left out: step n has batch n - 1."""
        skip = self.spec.profile.spec.skip
        return ranges_of(self.spec.asserted.get("skip")) if skip is not None and skip.spends_steps else ()

    @property
    def _is_reckoned(self) -> bool:
        """Whether the samples of a row follow from what was asked, and show nothing."""
        skip = self.spec.profile.spec.skip
        return self._every > 1 or (skip is not None and not skip.spends_steps)

    def _write(self, rows: list[StepReading], wall_s: float) -> None:
        if not rows:
            return
        since_s, self._wrote_s = self._wrote_s, wall_s
        for number, row in enumerate(rows, start=1):
            at_s = since_s + (wall_s - since_s) * number / len(rows)  # they came since the look before, nobody knows when
            before = self.newest if self.newest >= 0 else (self.resume_step or 0)
            samples = self._samples(before, row.step) if row.step > before else None
            self.newest = max(self.newest, row.step)
            metrics = {name: value for name, value in row.metrics.items() if name not in ("kind", "step", "samples", "time_s")}
            self.stream.step(row.step, samples=samples, **{**metrics, "time_s": at_s})
        if self.numbering.is_renewed and not self._has_remarked:
            self._has_remarked = True
            self.stream.event("remark", reason=self.numbering.sentence)

    def _samples(self, before: int, step: int) -> list[list[int]] | None:
        """Which batches, from 0, the steps behind `before` up to `step` trained on."""
        spec = self.spec.profile.spec
        if spec.data != "by step":
            return None
        skipped = [(start, end) for start, end, *_ in self.spec.asserted.get("skip", ())]
        if spec.skip is not None and not spec.skip.spends_steps:
            return _pass_over(self.resume_step or 0, before, step, skipped)
        return [[step - 1, step]] if self._every == 1 else _without(before, step, skipped) or None


def _pass_over(resumed: int, before: int, step: int, skipped: list[tuple[int, int]]) -> list[list[int]]:
    """The batches of these steps where what is left out costs no step: a step takes the next batch that is not."""

    def batch_of(step: int) -> int:
        place = step - 1
        for start, end in sorted(skipped):
            if end > resumed and start <= place:
                place += end - max(start, resumed)
        return place

    return _without(batch_of(before + 1), batch_of(step) + 1, skipped)


def _without(start: int, end: int, skipped: list[tuple[int, int]]) -> list[list[int]]:
    left = [[start, end]]
    for low, high in skipped:
        left = [part for begin, stop in left for part in ([begin, min(stop, low)], [max(begin, high), stop]) if part[0] < part[1]]
    return left


def _world_size() -> int:
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() and int(text) > 0 else 1
