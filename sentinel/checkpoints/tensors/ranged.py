"""The numbers of a file that is read range by range, in any order and by several threads: counted in parts that are added up.

    parts = RangedCount(count, range_bytes)
    part = parts.begin(number)                      # None where no number lies in that range
    part.feed(offset, block)                        # each block of the range; the first begins `lead` bytes before it
    parts.take(number, part)
    parts.whole()                                   # the count of the whole file

A value that a boundary cuts belongs to the range in which it ends, which is why a range looks at a few bytes before it.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from sentinel.checkpoints.tensors.stretches import Count, Stretch, StretchCount


class RangedCount:
    """`count`: of the whole file, of which nothing was fed."""

    def __init__(self, count: Count, range_bytes: int) -> None:
        self._count, self._range_bytes = count, range_bytes
        self._sums = [StretchCount(stretch) for stretch in count.stretches]
        self._left = [0] * len(count.stretches)  # bytes of each that no part has counted yet
        self._parts: dict[int, list[tuple[int, Stretch]]] = {}
        self._lock = threading.Lock()
        for place, stretch in enumerate(count.stretches):
            self._left[place] = stretch.end - stretch.start
            for number in range(stretch.start // range_bytes, (stretch.end - 1) // range_bytes + 1):
                start, end = self._cut(stretch, number), self._cut(stretch, number + 1)
                if end > start:
                    self._parts.setdefault(number, []).append((place, replace(stretch, start=start, end=end)))

    def _cut(self, stretch: Stretch, number: int) -> int:
        """Where the stretch's part of this range begins: with the last value that begins at or before the boundary."""
        over = number * self._range_bytes - stretch.start
        value_bytes = stretch.kind.value_bytes
        return stretch.start if over <= 0 else min(stretch.start + over // value_bytes * value_bytes, stretch.end)

    def lead(self, number: int) -> int:
        """How many bytes before the range its first values begin."""
        start = number * self._range_bytes
        return max([0, *(start - part.start for _, part in self._parts.get(number, ()))])

    def begin(self, number: int) -> Count | None:
        parts = [part for _, part in self._parts.get(number, ())]
        return Count(tuple(sorted(parts, key=lambda one: (one.start, one.end))), keeps_all=True) if parts else None

    def take(self, number: int, part: Count) -> None:
        """Add up what a range holds. One that is not whole leaves its stretches so."""
        places = {id(one): place for place, one in self._parts[number]}
        with self._lock:
            for tally in part.bad:
                whole = self._sums[place := places[id(tally.stretch)]]
                whole.nan += tally.nan
                whole.infinite += tally.infinite
                whole.has_number = whole.has_number or tally.has_number
                self._left[place] -= tally.stretch.end - tally.stretch.start

    def whole(self) -> Count:
        """As if the file had been fed from its beginning to its end."""
        self._count.begun = len(self._sums)
        for tally, left in zip(self._sums, self._left, strict=True):
            if left:
                self._count.open.append(tally)
                continue
            self._count.values += tally.values
            if tally.nan or tally.infinite:
                self._count.bad.append(tally)
        self._count.bad.sort(key=lambda tally: tally.stretch.end)
        return self._count
