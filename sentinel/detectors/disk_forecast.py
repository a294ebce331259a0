"""When does a disk no longer take the next checkpoint? Arithmetic over what was measured, for bytes and inodes alike.

A save takes what the recent ones took, and comes as often as they came. Each leaves one checkpoint more, unless what is kept is
bounded: by the policy's retention, or by whoever deletes old ones, which is seen in how many lie there. What else becomes less
is the others' doing, and goes on as it went. The first save that finds too little room is the hour that is told.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sentinel.model.disks import SavedCheckpoint
from sentinel.streams.monotone import median, theil_sen

RECENT = 5  # saves that say how large one is, and how often they come
UNLIKELY_SHORT = 0.5  # of what its steps take: a shorter gap between two manifests is a copy's, and no trainer's
BUCKETS_MIN = 8  # of fewer no trend is told
SAVES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptCheckpoints:
    """What the policy's retention keeps: the newest `last`, every multiple of `every_steps`, what lies within `reach_steps`."""

    last: int
    every_steps: int | None
    reach_steps: int


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often the run saves. `due_s`: until the next save, from now."""

    interval_s: float
    interval_steps: int
    due_s: float


@dataclass(frozen=True, slots=True)
class Growth:
    """How many checkpoints more there are after so many saves: one each up to `room`, from there on `beyond` of one each."""

    room: int | None = None
    beyond: float = 0.0

    def after(self, saves: int) -> float:
        if self.room is None or saves <= self.room:
            return float(saves)
        return self.room + (saves - max(self.room, 0)) * self.beyond


@dataclass(frozen=True, slots=True)
class Stock:
    """What there is of bytes or of inodes. `largest`, `usual`: what one save takes. `lost_per_s`: to others."""

    free: float
    largest: int
    usual: float
    lost_per_s: float = 0.0


def measure_rhythm(saves: Sequence[SavedCheckpoint], read_ago_s: float, step_time_s: float | None) -> Rhythm | None:
    """The medians of the recent gaps between two saves; None of fewer than two saves."""
    newest = sorted(saves, key=lambda save: -save.age_s)[-RECENT - 1 :]
    gaps = [(older.age_s - save.age_s, save.step - older.step) for older, save in pairwise(newest)]
    least_s = 0.0 if step_time_s is None else UNLIKELY_SHORT * step_time_s
    gaps = [(seconds, steps) for seconds, steps in gaps if steps > 0 and seconds > max(0.0, least_s * steps)]
    if not gaps:
        return None
    interval_s = median([seconds for seconds, _ in gaps])
    due_s = max(0.0, interval_s - (max(0.0, newest[-1].age_s) + read_ago_s))
    return Rhythm(interval_s, max(1, round(median([float(steps) for _, steps in gaps]))), due_s)


def measure_growth(kept: KeptCheckpoints | None, counts: Sequence[int], there: int, least: int, rhythm: Rhythm | None) -> Growth:
    """`counts`: complete checkpoints as each of the newest saves was first seen, the newest last. `there`: as many now. `least`:
    the fewest that were seen lately. A retention that is not carried out bounds nothing."""
    if len(counts) > RECENT and counts[-1] <= counts[0]:
        return Growth(least - there)  # somebody deletes as many as are saved
    if kept is None or rhythm is None:
        return Growth()
    keeps = max(kept.last, kept.reach_steps // rhythm.interval_steps + 2) + 1
    if least > keeps:
        return Growth()
    beyond = 0.0 if kept.every_steps is None else min(1.0, rhythm.interval_steps / kept.every_steps)
    return Growth(keeps - there, beyond)


def fits(stock: Stock, saves: int, growth: Growth | None = None) -> bool:
    """Whether so many saves in a row find room now."""
    before = (growth or Growth()).after(saves - 1) * stock.usual
    return stock.free - before >= stock.largest


def full_in_s(stock: Stock, rhythm: Rhythm, growth: Growth, within_s: float) -> float | None:
    """Seconds until the first save that finds too little room; None where there is none within `within_s`."""
    saves = min(SAVES_MAX, 1 + int(max(0.0, within_s - rhythm.due_s) / rhythm.interval_s))
    if rhythm.due_s > within_s:
        return None

    def at_s(save: int) -> float:
        return rhythm.due_s + (save - 1) * rhythm.interval_s

    def lacks(save: int) -> bool:
        left = stock.free - growth.after(save - 1) * stock.usual - stock.lost_per_s * at_s(save)
        return left < stock.largest

    first = bisect_left(range(1, saves + 1), True, key=lacks)  # what is missing once is missing at every later save
    return at_s(first + 1) if first < saves else None


def measure_loss(times: Sequence[float], values: Sequence[float]) -> float:
    """What becomes less in a second, where it does so steadily: over the whole and over both halves of it. One large copy is no
    trend. 0 where nothing can be said."""
    if len(times) < BUCKETS_MIN:
        return 0.0
    half = len(times) // 2
    falls = [-theil_sen(times[part], values[part]) for part in (slice(None), slice(None, half), slice(half, None))]
    return max(0.0, min(falls))
