"""Rises of a level that came back by themselves: data that returns in a fixed order makes the loss swing.

Each swing up from its own trough looks like the beginning of a climb, or of a loss that stands too high. A rise has come back
when three quarters of it are gone. What came back says how far the next one must go to be another thing: `TIMES` as far, for
`kept` places; and as high as it stood, however low the trough has come meanwhile, where the next one follows in the same rhythm.
One alone may have been a fault that healed, so it counts only where the next rise follows in its rhythm, if `lone_counts` is
False.

Places are whatever the caller counts in: blocks or steps. Sentinel's own rule; figures in the detectors' LOG.md.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT = 8
TIMES = 1.5
CAME_BACK = 0.25  # of the rise: what is left of one that came back
RHYTHM = 4  # times as long as the rise and its return took: until then the next one follows in the same rhythm


class Swing(NamedTuple):
    """A rise from `start` that was back at `end`, `height` above its trough, up to the level `top`."""

    start: int
    end: int
    height: float
    top: float


class Swings:
    """Fed with every level, in order."""

    __slots__ = ("_came_back", "_kept", "_lone_counts", "_start", "_top", "_trough")

    def __init__(self, kept: int, *, lone_counts: bool) -> None:
        self._kept = kept
        self._lone_counts = lone_counts
        self._came_back: deque[Swing] = deque(maxlen=KEPT)
        self.begin()

    def begin(self) -> None:
        self._came_back.clear()
        self._trough: float | None = None
        self._top, self._start = 0.0, 0

    def take(self, at: int, level: float, least: float) -> None:
        """The level at a place. A rise of no more than `least` is noise."""
        trough = self._trough
        if trough is None:
            self._trough, self._top, self._start = level, level, at
            return
        self._top = max(self._top, level)
        height = self._top - trough
        if height > least and level - trough < CAME_BACK * height:
            self._came_back.append(Swing(self._start, at, height, self._top))
            self._trough, self._top, self._start = level, level, at
        elif level < trough:
            self._trough, self._top, self._start = level, level, at

    def limit(self, at: int, low: float) -> float:
        """The level that a rise from `low` must leave behind; `low` where nothing has come back."""
        kept = self._came_back
        while kept and kept[0].end < at - self._kept:
            kept.popleft()
        if not kept:
            return low
        last = kept[-1]
        in_rhythm = at - last.end <= RHYTHM * (last.end - last.start)
        counted = list(kept) if self._lone_counts or len(kept) > 1 else [last] if in_rhythm else []
        limit = low + TIMES * max((one.height for one in counted), default=0.0)
        return max(limit, last.top) if in_rhythm else limit
