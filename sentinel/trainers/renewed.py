"""Step numbers that begin anew while the trainer runs: a loop that counts within each epoch."""

from __future__ import annotations

from dataclasses import dataclass

ROWS_MIN = 5
SHARE = 2  # one of so many: an evaluation prints few rows against those of the steps before it


@dataclass
class Renewed:
    """Whether the rows of one attempt have ceased to name new steps. `newest`: the highest; `first`: of the rows behind it."""

    newest: int = -1
    first: int = 0
    _every: int = 1
    _new: int = 0
    _behind: int = 0
    _last: int = -1

    def take(self, step: int) -> None:
        """The step of the next row, as the trainer numbers it. The same step again is no new one: several ranks print it."""
        last, self._last = self._last, step
        if step > self.newest:
            self._every = step - self.newest if self._new else 1
            self.newest, self._behind = step, 0
            self._new += 1
        elif step != last:
            self.first = step if not self._behind else self.first
            self._behind += 1

    @property
    def is_renewed(self) -> bool:
        return self._behind >= max(ROWS_MIN, self._new // SHARE)

    @property
    def reached(self) -> int:
        """The step that the trainer has come to, as far as its rows can be counted."""
        return self.newest + (self._every * self._behind if self.is_renewed else 0)

    @property
    def sentence(self) -> str:
        return (
            f"its step numbers begin anew: step {self.first} came behind step {self.newest}. Rows behind step {self.newest} are "
            "not judged, and behind a relaunch nobody knows where it stands. Have it print a step that counts on through all "
            "epochs, or name a file that has one: --trainer NAME:metrics=FILE"
        )
