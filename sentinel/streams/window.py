"""A rolling window of finite values, counted in steps, whose median costs one lookup.

The window spans `span_steps` steps, but never holds fewer than `samples_min` samples (a run logged every 100 steps still
has a past) nor more than `samples_max` (every container is bounded). Values are kept twice: in order of arrival, to know
which leave, and sorted, to read the median.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

SAMPLES_MAX = 4096


class Window:
    """Newest values over `span_steps` steps; the caller guards against non-finite values. `ordered`: they, sorted; read only."""

    __slots__ = ("_entries", "_samples_max", "_samples_min", "_span_steps", "ordered")

    def __init__(self, span_steps: int, samples_min: int, samples_max: int = SAMPLES_MAX) -> None:
        assert 0 < samples_min <= samples_max, f"{samples_min} of at most {samples_max} samples"
        self._span_steps = span_steps
        self._samples_min = samples_min
        self._samples_max = samples_max
        self._entries: deque[tuple[int, float]] = deque()
        self.ordered: list[float] = []

    def __len__(self) -> int:
        return len(self.ordered)

    def push(self, step: int, value: float) -> None:
        """Take a value in; let go of what is older than the span, down to the minimum number of samples."""
        entries, ordered = self._entries, self.ordered
        entries.append((step, value))
        insort(ordered, value)
        if len(ordered) > self._samples_min:
            oldest_kept = step - self._span_steps
            while entries[0][0] <= oldest_kept or len(ordered) > self._samples_max:
                del ordered[bisect_left(ordered, entries.popleft()[1])]
                if entries[0][0] > oldest_kept or len(ordered) <= self._samples_min:
                    return  # nearly always: one came, and one leaves

    def median(self) -> float:
        """Upper median; the window must not be empty."""
        return self.ordered[len(self.ordered) >> 1]

    def middle_and_spread(self) -> tuple[float, float]:
        """Median, and half the interquartile range, or the upper half of it when that is wider.

        Half the interquartile range is the MAD of symmetric noise, for two lookups instead of a search.
        """
        ordered = self.ordered
        count = len(ordered)
        middle, upper = ordered[count >> 1], ordered[(3 * count) >> 2]
        return middle, max(upper - middle, 0.5 * (upper - ordered[count >> 2]))

    def keep_newest(self, count: int) -> None:
        """Forget all but the newest `count` samples."""
        while len(self._entries) > count:
            self._entries.popleft()
        self.ordered[:] = sorted(value for _, value in self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self.ordered.clear()

    @property
    def first_step(self) -> int:
        return self._entries[0][0]

    @property
    def last_step(self) -> int:
        return self._entries[-1][0]
