"""How far the vertical scale of a curve goes: one rule for the page, the reports and the terminal.

The steps that the run stands on now set it. What a rollback threw away does not, and neither do a few rows that lie far from all
others: one spike must not press everything else into a line at the bottom. What lies outside is drawn at the edge, with a mark.

    reach = reach_of(kept, thrown_away)
    reach.side(5_000.0)                 # 1: above it
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHARE = 20  # one point in so many may lie outside on either side
HANDFUL = 5  # or so many, where that is more: the rows of one spike in a short curve
PART_MAX = 8  # but of few points no more than one in so many
FENCE = 2.0  # of the distance between the points that are left: whoever is nearer than that belongs to them
SAMPLED = 4096  # of more points so many, evenly chosen, say where most of them lie
NEAR = 0.5  # of the scale: what was thrown away and lies so near to it is shown on it
LEVEL_FENCE = 1.0  # of its own height, for a curve that is level: a learning rate that doubles is no spike


@dataclass(frozen=True, slots=True)
class Reach:
    """The lowest and the highest value that the scale shows."""

    low: float
    high: float

    def side(self, value: float) -> int:
        """-1 below it, 1 above it, 0 on it."""
        return (value > self.high) - (value < self.low)


def reach_of(kept: Iterable[float], others: Iterable[float] = (), *, is_log: bool = False) -> Reach | None:
    """`kept`: the values of the steps that survive. `others`: of all steps, or of those that do not; where none of `kept` is
    finite, they count instead. Distances are those of a logarithmic scale with `is_log`, if every value of `kept` is above zero.
    None where nothing is finite."""
    others = [value for value in others if math.isfinite(value)]
    values = [value for value in kept if math.isfinite(value)] or others
    if not values:
        return None
    if is_log and min(values) > 0:
        found = _reach([math.log(value) for value in values], [math.log(value) for value in others if value > 0])
        inside = [value for value in (*values, *others) if value > 0 and not found.side(math.log(value))]
        return Reach(min(inside), max(inside))
    return _reach(values, others)


def _reach(values: Sequence[float], others: Sequence[float]) -> Reach:
    """Some values lie within the fences always: those in the middle, between which the fences are measured."""
    sampled = sorted(values[:: max(1, math.ceil(len(values) / SAMPLED))])
    cut = max(len(sampled) // SHARE, min(HANDFUL, len(sampled) // PART_MAX))
    low, high = sampled[cut], sampled[-1 - cut]
    far = FENCE * (high - low) if high > low else LEVEL_FENCE * abs(high)
    inside = [value for value in values if low - far <= value <= high + far]
    low, high = min(inside), max(inside)
    near = NEAR * (high - low)
    beside = [value for value in others if low - near <= value <= high + near]
    return Reach(min([low, *beside]), max([high, *beside]))
