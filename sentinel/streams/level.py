"""A band of values: where they stand, and how far they stray from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

USUAL_GAPS, OTHER_GAPS, INTERVAL_TIMES = 5, 3, 4


@dataclass(frozen=True, slots=True)
class Level:
    """A band of values: median and median absolute deviation of `count` samples at first_step..last_step."""

    median: float
    mad: float
    count: int
    first_step: int
    last_step: int


def measure_level(entries: list[tuple[int, float]]) -> Level | None:
    """Median and MAD of (step, value) pairs, oldest first; a non-finite value counts as infinitely high, never as absent."""
    if not entries:
        return None
    values = sorted(value if value - value == 0.0 else math.inf for _, value in entries)
    median = values[len(values) // 2]
    if median == math.inf:
        return Level(median, math.inf, len(values), entries[0][0], entries[-1][0])
    deviations = sorted(abs(value - median) for value in values)
    return Level(median, deviations[len(deviations) // 2], len(values), entries[0][0], entries[-1][0])


def since_newest_interval(entries: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The rows, oldest first, since the logging interval last changed: those of a log that wrote every step in its beginning and
    writes every 500th now have another noise, and look like another descent. One hole, or one row more, is no change."""
    gaps = [newer - older for (older, _), (newer, _) in pairwise(entries)]
    if len(gaps) < USUAL_GAPS:
        return entries
    usual = sorted(gaps[-USUAL_GAPS:])[USUAL_GAPS // 2]
    others = 0
    for at in reversed(range(len(gaps))):
        others = 0 if usual <= INTERVAL_TIMES * gaps[at] <= INTERVAL_TIMES**2 * usual else others + 1
        if others == OTHER_GAPS:
            return entries[at + OTHER_GAPS :]
    return entries


def measure_noise(entries: list[tuple[int, float]]) -> float:
    """The median absolute deviation that single rows have around wherever the metric is going, from the differences of
    neighbours: a descent, or a step, hardly moves it. Non-finite rows are passed over; 0.0 for fewer than two."""
    values = [value for _, value in entries if value - value == 0.0]
    jumps = sorted(abs(newer - older) for older, newer in pairwise(values))
    return jumps[len(jumps) // 2] / math.sqrt(2.0) if jumps else 0.0
