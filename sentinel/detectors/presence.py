"""Which metrics were in every row, and which of them stay away while rows go on: `non_finite` reports them."""

from __future__ import annotations

from sentinel.model.readings import StepReading

REGULAR_ROWS = 20
MISSING_ROWS = 5
NAMES_MAX = 512


class Presence:
    """Which metrics come with every row, and which of them stopped coming."""

    def __init__(self) -> None:
        self._row = 0
        self._since: dict[str, int] = {}  # name -> first row of its unbroken presence
        self._gone: dict[str, tuple[int, int, float]] = {}  # name -> row, step and arrival of the first row without it

    @property
    def is_empty(self) -> bool:
        """Did the newest row hold nothing?"""
        return not self._since

    def missing(self, reading: StepReading, now_s: float) -> tuple[str, int, float] | None:
        """A metric (at most one a row) missing for `MISSING_ROWS` rows after `REGULAR_ROWS` of presence, and since when."""
        self._row += 1
        names = reading.metrics.keys()
        if names != self._since.keys():
            self._note_change(reading, now_s)
        if not self._gone:
            return None
        for name in [name for name in self._gone if name in names]:
            del self._gone[name]
        for name, (row, step, seen_s) in self._gone.items():
            if self._row - row + 1 >= MISSING_ROWS:
                del self._gone[name]
                return name, step, seen_s
        return None

    def _note_change(self, reading: StepReading, now_s: float) -> None:
        for name in [name for name in self._since if name not in reading.metrics]:
            if self._row - self._since.pop(name) >= REGULAR_ROWS:
                self._gone[name] = (self._row, reading.step, now_s)
        for name in reading.metrics:
            if name not in self._since and len(self._since) < NAMES_MAX:
                self._since[name] = self._row
