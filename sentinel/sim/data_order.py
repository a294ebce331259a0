"""The simulated trainer's data order (PROTOCOL.md 'Data order'): indices are taken in rising order, skipped ones are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
Orders = tuple[tuple[int, int], ...]  # (first index, data_seed) of every order after the configured one

CORPUS = 1 << 16  # sequences; far more than a simulated run trains on


def sequence_of(index: int, orders: Orders) -> int:
    """The sequence a sample index stands for: itself in the configured order, in another wherever that order has it."""
    seed = next((seed for start, seed in reversed(orders) if start <= index), None)
    return index if seed is None else (index * (2 * (seed % CORPUS) + 1) + seed) % CORPUS  # odd: a bijection


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted, disjoint, neighbours that touch joined."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


def take(cursor: int, count: int, skip: Sequence[Span]) -> tuple[tuple[Span, ...], int]:
    """The next `count` indices at or after the cursor that are not skipped, and the cursor behind the last one taken."""
    taken: list[Span] = []
    for start, end in skip:
        if end <= cursor:
            continue
        if cursor < start:
            stop = min(start, cursor + count)
            taken.append((cursor, stop))
            count -= stop - cursor
            cursor = stop
            if count == 0:
                return tuple(taken), cursor
        cursor = max(cursor, end)
    taken.append((cursor, cursor + count))
    return tuple(taken), cursor + count


def overlap(spans: Iterable[Span], start: int, end: int) -> int:
    """How many indices of `spans` lie in start..end."""
    return sum(max(0, min(b, end) - max(a, start)) for a, b in spans)
