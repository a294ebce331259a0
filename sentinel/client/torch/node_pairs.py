"""Which nodes of a pool all-reduce with which, and whom the results convict. Pure; no torch.

Every node is paired once. A pair that fails says that one of its two is bad, or the link between them, and not which. So each
suspect is paired again, with a node that a pair has cleared: who fails with that one, too, is bad. Whoever could not be paired
with a cleared node is unknown. Two rounds are enough where no more nodes are suspected than cleared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[int, int]
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """By rank of the pool: who is bad, with the ranks that it failed with; of whom nothing is known."""

    bad: Mapping[int, tuple[int, ...]]
    unknown: tuple[int, ...] = ()


def choose_pairs(size: int, results: Mapping[Pair, bool]) -> tuple[Pair, ...]:
    """The pairs of the next round, disjoint; none where everything that can be known is. `results`: of the rounds before."""
    if not results:
        return tuple((rank, rank + 1) for rank in range(0, size - 1, 2))
    cleared = [rank for rank in range(size) if _is_cleared(rank, results)]
    waiting = [rank for rank in range(size) if not _is_settled(rank, results, cleared)]
    return tuple((min(one, other), max(one, other)) for one, other in zip(waiting, cleared, strict=False))


def judge_pool(size: int, results: Mapping[Pair, bool]) -> PoolVerdict:
    """A node alone in its pool is unknown: nobody was there to pair it with."""
    cleared = [rank for rank in range(size) if _is_cleared(rank, results)]
    bad: dict[int, tuple[int, ...]] = {}
    unknown = []
    for rank in range(size):
        if rank in cleared:
            continue
        with_cleared = any(other in cleared for other in _failed_with(rank, results))
        if with_cleared:
            bad[rank] = _failed_with(rank, results)
        else:
            unknown.append(rank)
    return PoolVerdict(bad, tuple(unknown))


def _is_cleared(rank: int, results: Mapping[Pair, bool]) -> bool:
    return any(ok for pair, ok in results.items() if rank in pair)


def _is_settled(rank: int, results: Mapping[Pair, bool], cleared: Sequence[int]) -> bool:
    return rank in cleared or any(other in cleared for other in _failed_with(rank, results))


def _failed_with(rank: int, results: Mapping[Pair, bool]) -> tuple[int, ...]:
    return tuple(pair[1] if pair[0] == rank else pair[0] for pair, ok in results.items() if rank in pair and not ok)
