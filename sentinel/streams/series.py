"""One attempt's steps in order: each step once, gaps known, memory bounded.

Readings come from a file that may be re-read, torn or repeated. Only a step newer than all before it is taken; a step seen
before counts as `repeated`, an older one never seen as `late`, one impossibly far ahead as `wild`; none of them changes
anything. A gap is no fault: a run may
log every 100 steps. `interval_steps` is the usual distance between readings, learned from the last few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice, pairwise

from sentinel.model.attempts import SampleRange
from sentinel.model.metrics import is_family
from sentinel.model.readings import StepReading
from sentinel.streams.family import SHAPES_KEPT, STEPS_KEPT, members_of
from sentinel.streams.level import Level, measure_level

RING_SIZE = 4096
GAPS_KEPT = 9
PAIRS_READ = 8  # of readings, to find out the batch: some may have passed over data that was left out
JUMP_STEPS_MAX = 100_000  # no trainer leaps so far within an attempt: such a line is damaged, and believing it would blind us
JUMP_INTERVALS_MAX = 1_000

Columns = tuple[  # of rows with the same metrics
    tuple[tuple[str, Callable[[tuple[int, float]], None]], ...],  # each tracked metric, and what takes its value in
    tuple[deque[int], ...],  # the steps of each family that they hold a member of
]


class Series:
    """The newest `RING_SIZE` readings of the attempt, and of each tracked metric its newest `RING_SIZE` values."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._order: deque[int] = deque()
        self._rows: dict[int, tuple[float, tuple[SampleRange, ...]]] = {}
        self._values: dict[str, deque[tuple[int, float]]] = {}
        self._tracked: dict[str, Callable[[tuple[int, float]], None]] = {}
        self._families: dict[str, deque[int]] = {}  # of each, the newest steps whose row holds a member
        self._columns_of = lru_cache(SHAPES_KEPT)(self._find_columns)
        self._names: tuple[str, ...] | None = None  # of the newest row, which most rows repeat
        self._columns: Columns = (), ()
        self.track(metrics)
        self._gaps: deque[int] = deque(maxlen=GAPS_KEPT)
        self.newest_step = 0
        self.interval_steps = 1
        self.repeated = 0
        self.late = 0
        self.wild = 0

    def track(self, names: Iterable[str]) -> None:
        """Keep the values of these metrics, too, and of families the steps."""
        self._columns_of.cache_clear()
        self._names = None
        for name in names:
            if is_family(name):
                self._families.setdefault(name, deque(maxlen=STEPS_KEPT))
            elif name not in self._values:
                self._values[name] = deque(maxlen=RING_SIZE)
                self._tracked[name] = self._values[name].append

    def begin(self, resume_step: int = 0) -> None:
        """Another attempt, or a relaunch inside it: nothing of the old order holds any more."""
        self._order.clear()
        self._rows.clear()
        self._gaps.clear()
        for values in self._values.values():
            values.clear()
        for steps in self._families.values():
            steps.clear()
        self.newest_step = resume_step
        self.interval_steps = 1

    def add(self, reading: StepReading, names: tuple[str, ...] | None = None) -> int:
        """Take the reading; returns the steps it stands for (at most the usual interval), or 0 when it is not new. `names` are
        those of its metrics, where they are at hand."""
        step = reading.step
        gap = step - self.newest_step
        if gap <= 0 and not (step == 0 and not self._order):
            if step in self._rows:
                self.repeated += 1
            else:
                self.late += 1
            return 0
        order, usual = self._order, self.interval_steps
        if order:
            if gap > JUMP_STEPS_MAX and gap > JUMP_INTERVALS_MAX * usual:
                self.wild += 1
                return 0
            if gap == usual:
                self._gaps.append(gap)
            else:
                self._learn_gap(gap)
        order.append(step)
        self._rows[step] = (reading.time_s, reading.samples)
        if len(order) > RING_SIZE:
            del self._rows[order.popleft()]
        metrics = reading.metrics
        names = names or tuple(metrics)
        if names != self._names:
            self._names, self._columns = names, self._columns_of(names)
        columns, families = self._columns
        for name, keep in columns:
            keep((step, metrics[name]))
        for steps in families:
            steps.append(step)
        self.newest_step = step
        return 1 if gap <= 1 else min(gap, self.interval_steps)

    def has_row(self, step: int) -> bool:
        return step in self._rows

    def complete(self, reading: StepReading) -> None:
        """Another line of the newest step: the values that it adds."""
        step, (columns, families) = reading.step, self._find_columns(tuple(reading.metrics))
        for name, keep in columns:
            keep((step, reading.metrics[name]))
        for steps in families:
            if not steps or steps[-1] != step:
                steps.append(step)

    def _find_columns(self, names: tuple[str, ...]) -> Columns:
        """Where a row of these metrics goes. Asked once for all rows of a shape: most have that of the row before."""
        tracked = tuple((name, self._tracked[name]) for name in names if name in self._tracked)
        return tracked, tuple(steps for family, steps in self._families.items() if any(members_of(family, names)))

    def seed(self, history: Iterable[StepReading], resume_step: int) -> None:
        """Begin anew at `resume_step`, with the surviving past before it in memory."""
        self.begin()
        for reading in history:
            self.add(reading)
        self.newest_step = max(self.newest_step, resume_step)

    def samples_of(self, step: int) -> tuple[SampleRange, ...] | None:
        """Data the step consumed; None when the step was not logged, or is older than the rows kept."""
        row = self._rows.get(step)
        return None if row is None else row[1]

    @property
    def samples_per_step(self) -> int | None:
        """The batch of one step, by the newest two readings that tell it; before there are two, all samples of the newest. None
        when nothing is known."""
        newest = list(islice(reversed(self._order), PAIRS_READ + 1))
        for step, before in pairwise(newest):
            if (batch := self._batch_between(before, step)) is not None:
                return batch
        return (_size(self._rows[newest[0]][1]) or None) if newest else None

    def _batch_between(self, before: int, step: int) -> int | None:
        """Of two readings the usual distance apart. The newer one has the samples of all steps since the older one, or those of
        its own step alone: where they begin says which. None where something between them was left out."""
        gap, old, new = step - before, self._rows[before][1], self._rows[step][1]
        if not old or not new or gap != self.interval_steps:
            return None
        size, between = _size(new), new[0].start - old[-1].end
        if between == 0:
            return max(1, round(size / gap))
        return size if gap == 1 or between == (gap - 1) * size else None

    def entries(self, metric: str, after_step: int, up_to_step: int | None = None) -> list[tuple[int, float]]:
        """(step, value) of a tracked metric over after_step < step <= up_to_step, clean or not, oldest first."""
        picked: list[tuple[int, float]] = []
        for entry in reversed(self._values.get(metric, ())):
            if entry[0] <= after_step:
                break
            if up_to_step is None or entry[0] <= up_to_step:
                picked.append(entry)
        picked.reverse()
        return picked

    def level(self, metric: str, after_step: int, up_to_step: int | None = None) -> Level | None:
        """Median and MAD of the metric over after_step < step <= up_to_step, clean or not; None without any reading."""
        return measure_level(self.entries(metric, after_step, up_to_step))

    def before(self, metric: str, step: int, count: int) -> list[tuple[int, float]]:
        """The newest `count` (step, value) of a tracked metric before `step`, oldest first; fewer where there are not so many."""
        picked = list(islice((entry for entry in reversed(self._values.get(metric, ())) if entry[0] < step), count))
        picked.reverse()
        return picked

    def newest(self, metric: str, count: int) -> list[tuple[int, float]]:
        """The newest `count` (step, value) of a tracked metric, oldest first."""
        values = self._values.get(metric)
        if not values:
            return []
        return [values[index] for index in range(max(-count, -len(values)), 0)]

    def newest_steps(self, name: str) -> list[int]:
        """The newest steps, STEPS_KEPT at most, whose reading holds a tracked metric, or a member of a tracked family."""
        steps = self._families.get(name)
        return list(steps) if steps is not None else [step for step, _ in self.newest(name, STEPS_KEPT)]

    def count_after(self, step: int) -> int:
        """Readings after `step`, of those kept."""
        return len(self._order) - bisect_right(self._order, step)

    def __len__(self) -> int:
        return len(self._order)

    def _learn_gap(self, gap: int) -> None:
        self._gaps.append(gap)
        ordered = sorted(self._gaps)
        self.interval_steps = ordered[len(ordered) // 2]


def _size(samples: Iterable[SampleRange]) -> int:
    return sum(part.end - part.start for part in samples)
