"""Which sequences a step trains on: pure arithmetic, the same on every machine and for every number of ranks.

The data order is a permutation of the corpus fixed by (data_seed, epoch). A place in it is a *sample index*, counted on through
the epochs. A step takes the first B indices at or after the cursor that are not skipped; the cursor then points behind the last
one taken. A new data_seed starts a new order from the cursor on, so the orders of a run form a short history, and a skip entry
holds only where the order it names is in force.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

MASK = (1 << 64) - 1
FEISTEL_ROUNDS = 6  # four already look random for a keyed round function (Luby-Rackoff); two more cost little

Skip = tuple[int, int, int]  # half-open (start, end) of sample indices, and the data_seed whose order they mean
Span = tuple[int, int]


def mix(value: int) -> int:
    """A well-scrambled 64-bit number for each 64-bit number (the finalizer of SplitMix64, Steele et al. 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def permuted(position: int, size: int, data_seed: int, epoch: int) -> int:
    """Where `position` of an epoch lands in a corpus of `size` sequences: a bijection on range(size), O(1) and stateless.

    A Feistel network on the next even number of bits, walked until it lands inside (cycle walking, Black and Rogaway 2002).
    """
    assert 0 <= position < size
    half = max(1, (size - 1).bit_length() + 1 >> 1)
    low = (1 << half) - 1
    key = mix(mix(data_seed) ^ epoch)
    value = position
    while True:
        left, right = value >> half, value & low
        for turn in range(FEISTEL_ROUNDS):
            left, right = right, left ^ (mix(key ^ (turn << 56) ^ right) & low)
        value = (left << half) | right
        if value < size:
            return value


@dataclass(frozen=True)
class Order:
    """The data order from one sample index on."""

    start: int
    data_seed: int


@dataclass(frozen=True)
class Position:
    """A run's position in its data. Equal positions continue identically."""

    orders: tuple[Order, ...]
    cursor: int = 0
    skip: tuple[Skip, ...] = ()

    @classmethod
    def first(cls, data_seed: int) -> Position:
        return cls((Order(0, data_seed),))

    @property
    def data_seed(self) -> int:
        """Of the order in force at the cursor and after it."""
        return self.orders[-1].data_seed

    def sequence_of(self, index: int, size: int) -> int:
        """The corpus sequence of a sample index."""
        order = self.orders[bisect_right(self.orders, index, key=lambda order: order.start) - 1]
        return permuted(index % size, size, order.data_seed, index // size)

    def take(self, count: int) -> tuple[tuple[int, ...], Position]:
        """The next `count` sample indices, and the position behind them."""
        taken: list[int] = []
        cursor, spans = self.cursor, self.skipped_ahead()
        while len(taken) < count:
            stop = spans[0][0] if spans else cursor + count
            run = range(cursor, min(max(stop, cursor), cursor + count - len(taken)))
            taken.extend(run)
            cursor = run.stop
            if spans and len(taken) < count:
                cursor = max(cursor, spans.pop(0)[1])
        return tuple(taken), replace(self, cursor=cursor)

    def reordered(self, data_seed: int) -> Position:
        """The same cursor with a new order from it on; unchanged if that order is already in force."""
        if data_seed == self.data_seed:
            return self
        kept = tuple(order for order in self.orders if order.start < self.cursor)
        return replace(self, orders=(*kept, Order(self.cursor, data_seed)))

    def skipping(self, entries: Iterable[Sequence[int]]) -> tuple[Position, list[Span]]:
        """With more to skip, and the parts of `entries` that lie below the cursor, where a skip comes too late.

        An entry without a data_seed of its own means the order in force.
        """
        named = [(entry[0], entry[1], entry[2] if len(entry) > 2 else self.data_seed) for entry in entries]
        late = [(start, min(end, self.cursor)) for start, end, _ in named if start < min(end, self.cursor)]
        seeds = sorted({seed for *_, seed in (*self.skip, *named)})
        union = [
            (start, end, seed)
            for seed in seeds
            for start, end in union_of((start, end) for start, end, of in (*self.skip, *named) if of == seed)
        ]
        return replace(self, skip=tuple(union)), union_of(late)

    def ahead(self, ranges: Iterable[Span]) -> list[int]:
        """The sample indices of `ranges` that the run would still train on: at or after the cursor, and not skipped."""
        spans = self.skipped_ahead()
        wanted = (index for start, end in union_of(ranges) for index in range(max(start, self.cursor), end))
        return [index for index in wanted if not any(first <= index < behind for first, behind in spans)]

    def skipped_ahead(self) -> list[Span]:
        """What will really be left out from the cursor on: skip entries cut to where their order is in force."""
        ends = [order.start for order in self.orders[1:]]
        spans = []
        for order, end in zip(self.orders, [*ends, None], strict=True):
            for start, stop, seed in self.skip:
                first = max(start, order.start, self.cursor)
                behind = stop if end is None else min(stop, end)
                if seed == order.data_seed and first < behind:
                    spans.append((first, behind))
        return union_of(spans)


def union_of(spans: Iterable[Span]) -> list[Span]:
    """Sorted, disjoint, without empty ones; neighbours that touch are joined."""
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def ranges_of(indices: Sequence[int]) -> list[list[int]]:
    """Rising indices as half-open ranges, the way a step line lists its samples."""
    return [list(span) for span in union_of((index, index + 1) for index in indices)]
