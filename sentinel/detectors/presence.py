"""Which metrics were in every row, and which of them stay away while rows go on: `non_finite` reports them."""

from __future__ import annotations

from sentinel.model.readings import StepReading

REGULAR_ROWS = 20
MISSING_ROWS = 5
NAMES_MAX = 512


class Presence:
    """Which metrics come with every row, and which of them stopped coming. Rows that hold `names`, while nothing is `gone`, need
    not be shown to it."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # name -> first row of its unbroken presence
        self.names = self._since.keys()
        self.gone: dict[str, tuple[int, int, float]] = {}  # name -> row, step and arrival of the first row without it

    @property
    def is_empty(self) -> bool:
        """Did the newest row hold nothing?"""
        return not self._since

    def missing(self, row: int, reading: StepReading, now_s: float) -> tuple[str, int, float] | None:
        """A metric (at most one a row) missing for `MISSING_ROWS` rows after `REGULAR_ROWS` of presence, and since when."""
        names = reading.metrics.keys()
        if names != self.names:
            self._note_change(row, reading, now_s)
        for name in [name for name in self.gone if name in names]:
            del self.gone[name]
        for name, (first_row, step, seen_s) in self.gone.items():
            if row - first_row + 1 >= MISSING_ROWS:
                del self.gone[name]
                return name, step, seen_s
        return None

    def _note_change(self, row: int, reading: StepReading, now_s: float) -> None:
        for name in [name for name in self._since if name not in reading.metrics]:
            if row - self._since.pop(name) >= REGULAR_ROWS:
                self.gone[name] = (row, reading.step, now_s)
        for name in reading.metrics:
            if name not in self._since and len(self._since) < NAMES_MAX:
                self._since[name] = row
