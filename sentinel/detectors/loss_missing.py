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
    """Counts rows with a loss, then the rows without one."""

    def __init__(self) -> None:
        self._regular = 0
        self._since: tuple[int, float] | None = None  # step and arrival of the first row without a loss that used to be there
        self._gone = 0

    @property
    def back(self) -> str:
        """What shows that the loss is there again, as regularly as it was; empty while it is not. A number, whatever it says."""
        return f"the loss is back: it was in the newest {self._regular} rows" if self._regular >= BACK_ROWS else ""

    def missing(self, reading: StepReading, now_s: float) -> tuple[int, float] | None:
        """Since which step, and when that row came; said once, in the row where it is believed."""
        if METRIC in reading.metrics:
            self._regular += 1
            self._gone, self._since = 0, None
            return None
        if self._since is None:
            if self._regular < REGULAR_ROWS:
                self._regular = 0
                return None
            self._since = reading.step, now_s
        self._regular = 0
        self._gone += 1
        return self._since if self._gone == GONE_ROWS else None
