"""A stream in blocks of five samples, for what is judged slowly: one median and one spread for each block.

A slow detector needs long memories and not every sample. Five samples become one median, which one or two outliers cannot
move, and the gap between their second and fourth value, whose median over the last blocks is the noise of single samples:
differences inside a block do not see a level that moves slowly, so a drift does not hide itself in its own spread.
"""

from __future__ import annotations

from collections import deque

from sentinel.streams.window import Window

BLOCK = 5
SPREAD_BLOCKS = 81
GAP_TO_SIGMA = 1 / 0.95  # median gap between 2nd and 4th of five standard normal numbers (simulated: 0.95)


class Blocks:
    """The newest `keep` block medians (each with its last step), and the noise of one sample."""

    __slots__ = ("_gaps", "_part", "count", "medians", "steps")

    def __init__(self, keep: int) -> None:
        self._part: list[float] = []
        self._gaps = Window(1, SPREAD_BLOCKS)
        self.medians: deque[float] = deque(maxlen=keep)
        self.steps: deque[int] = deque(maxlen=keep)
        self.count = 0

    def clear(self) -> None:
        self._part.clear()
        self._gaps.clear()
        self.medians.clear()
        self.steps.clear()
        self.count = 0

    def push(self, step: int, value: float) -> bool:
        """Take one finite value; True when it completed a block."""
        part = self._part
        part.append(value)
        if len(part) < BLOCK:
            return False
        part.sort()
        self.medians.append(part[2])
        self.steps.append(step)
        self._gaps.push(step, min(part[3] - part[1], 1e300))
        self.count += 1
        part.clear()
        return True

    def middle(self, newest: int, skip: int = 0) -> float:
        """Median of `newest` block medians, leaving out the `skip` newest. There must be so many."""
        end = len(self.medians) - skip
        assert end >= newest > 0, f"{newest} blocks before the {skip} newest, of {len(self.medians)}"
        picked = sorted(list(self.medians)[end - newest : end])
        return picked[newest >> 1] if newest & 1 else 0.5 * (picked[(newest >> 1) - 1] + picked[newest >> 1])

    @property
    def sigma(self) -> float:
        """Noise of one sample, as of a gaussian; there must be a block."""
        return self._gaps.median() * GAP_TO_SIGMA
