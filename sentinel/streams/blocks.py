"""A stream in blocks of five samples, for what is judged slowly: one median and one spread for each block.

A slow detector needs long memories and not every sample. Five samples become one median, which one or two outliers cannot
move, and the gap between their second and fourth value, whose median over the last blocks is the noise of single samples:
differences inside a block do not see a level that moves slowly, so a drift does not hide itself in its own spread.

`Fives` makes the blocks, once for each metric; `Blocks` remember them, one for each reader, because readers forget at different
times.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sentinel.streams.rounding import rounding_half
from sentinel.streams.window import Window

BLOCK = 5
SPREAD_BLOCKS = 81
GAP_TO_SIGMA = 1 / 0.95  # median gap between 2nd and 4th of five standard normal numbers (simulated: 0.95)
LARGEST_GAP = 1e300
INFINITE = math.inf
LOOKED_AT = 20  # medians, for the places that a log writes


class Block(NamedTuple):
    """Five samples of first_step..last_step: their median, and the gap between the second and the fourth in order."""

    first_step: int
    last_step: int
    middle: float
    gap: float


def too_little_history(until_step: int | None) -> str:
    """For people: why nothing is judged, and until when as far as that is known."""
    return "too little history to judge by" if until_step is None else f"too little history until step {until_step}"


class Fives:
    """Five finite samples to a block. `log_space` for norms: positive samples only, and a block of their logarithms."""

    __slots__ = ("_above", "_first_step", "_log_space", "_part")

    def __init__(self, *, log_space: bool = False) -> None:
        self._log_space = log_space
        self._above = 0.0 if log_space else -math.inf  # samples lie between it and infinity
        self._part: list[float] = []
        self._first_step = 0

    def clear(self) -> None:
        self._part.clear()

    def take(self, step: int, value: float) -> Block | None:
        """The block that this sample completed. What is no number (in log space: or not positive) is passed over."""
        if not self._above < value < INFINITE:
            return None
        part = self._part
        if not part:
            self._first_step = step
        part.append(value)
        if len(part) < BLOCK:
            return None
        part.sort()
        low, middle, high = part[1:4]
        part.clear()
        if self._log_space:
            low, middle, high = math.log(low), math.log(middle), math.log(high)
        return Block(self._first_step, step, middle, min(high - low, LARGEST_GAP))


class Blocks:
    """The newest `keep` block medians (each with its last step), and `sigma`, the noise of one sample, as of a gaussian: 0.0
    before the first block."""

    __slots__ = ("_fives", "_gaps", "_keep", "count", "medians", "sigma", "steps")

    def __init__(self, keep: int) -> None:
        self._fives = Fives()
        self._gaps = Window(1, SPREAD_BLOCKS)
        self._keep = keep
        self.medians: list[float] = []  # lists: what is read of them are slices from the newest end
        self.steps: list[int] = []
        self.sigma = 0.0
        self.count = 0

    def clear(self) -> None:
        self._fives.clear()
        self._gaps.clear()
        self.medians.clear()
        self.steps.clear()
        self.sigma = 0.0
        self.count = 0

    def add(self, block: Block) -> None:
        """Take a block in."""
        _, last_step, middle, gap = block
        medians, steps = self.medians, self.steps
        medians.append(middle)
        steps.append(last_step)
        if len(steps) > self._keep:
            del medians[0], steps[0]
        gaps = self._gaps
        gaps.push(last_step, gap)
        self.sigma = gaps.ordered[len(gaps.ordered) >> 1] * GAP_TO_SIGMA
        self.count += 1

    def push(self, step: int, value: float) -> bool:
        """Take one finite value, where nobody else makes blocks of this stream; True when it completed a block."""
        block = self._fives.take(step, value)
        if block is None:
            return False
        self.add(block)
        return True

    def awake_from(self, blocks: int) -> int | None:
        """The step at which there are so many blocks, if rows come as until now; None before the second block."""
        if len(self.steps) < 2:
            return None
        each = (self.steps[-1] - self.steps[0]) / (len(self.steps) - 1)
        return self.steps[-1] + math.ceil((blocks - self.count) * each)

    def middle(self, newest: int, skip: int = 0) -> float:
        """Median of `newest` block medians, leaving out the `skip` newest. There must be so many."""
        medians = self.medians
        end = len(medians) - skip
        assert end >= newest > 0, f"{newest} blocks before the {skip} newest, of {len(medians)}"
        picked = sorted(medians[end - newest : end])
        return picked[newest >> 1] if newest & 1 else 0.5 * (picked[(newest >> 1) - 1] + picked[newest >> 1])

    def largest_sigma(self, *, is_log: bool = False) -> float:
        """As large as that noise can be: a gap between rounded samples is known to within a unit of their last place."""
        newest = self.medians[-LOOKED_AT:]
        return self.sigma + 2.0 * rounding_half(newest, is_log=is_log) * GAP_TO_SIGMA
