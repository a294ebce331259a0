"""loss_missing: the loss was in every row and stays away while training goes on.

Sees: `GONE_ROWS` rows without a loss, each a step further than the one before (a detector gets no others), after `REGULAR_ROWS`
rows that all held it. Does not see: a run that never logged a loss in every row, a pause for an evaluation (its rows make no
step), a loss that comes more seldom from now on, if it comes once in `GONE_ROWS` rows.

Several trainers leave a loss out where it is NaN (Megatron's forks), so this may be a run that learns nothing more; or somebody
changed what is logged. The rows do not say which. Neither is proof of damage, so nothing is rolled back: a person is told,
because what is judged by the loss is unknown from here on. `BACK_ROWS` rows with a loss in a row take that back. Where
the rows do say it (`nan_iterations`, a gradient that is no number) `non_finite` alarms by itself and sooner.

`non_finite` holds this watch and gives its finding. 50 rows: ten times what is recorded as info for any metric.
"""

from __future__ import annotations

from sentinel.model.findings import Kind
from sentinel.model.readings import StepReading

KIND = Kind("loss_missing")
METRIC = "loss"
REGULAR_ROWS = 20
GONE_ROWS = 50
BACK_ROWS = 20


class LossWatch:
    """Counts rows with a loss, then the rows without one. `since`: step and arrival of the first row without a loss that used to
    be there. While that is None, rows with the names of the row before need not be shown to it."""

    def __init__(self) -> None:
        self._with: int | None = None  # the first row of those that hold a loss
        self._without = 0  # rows since then that hold none
        self.since: tuple[int, float] | None = None

    def back(self, row: int) -> str:
        """What shows that the loss is there again, as regularly as it was; empty while it is not. A number, whatever it says.
        `row`: the newest one."""
        rows = row - self._with + 1 if self._with is not None else 0
        return f"the loss is back: it was in the newest {rows} rows" if rows >= BACK_ROWS else ""

    def missing(self, row: int, reading: StepReading, now_s: float) -> tuple[int, float] | None:
        """Since which step, and when that row came; said once, in the row where it is believed."""
        if METRIC in reading.metrics:
            if self._with is None:
                self._with = row
            self._without, self.since = 0, None
            return None
        regular = row - self._with if self._with is not None else 0
        self._with = None
        if self.since is None:
            if regular < REGULAR_ROWS:
                return None
            self.since = reading.step, now_s
        self._without += 1
        return self.since if self._without == GONE_ROWS else None
