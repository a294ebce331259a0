"""What an experiment tracker has to do for Sentinel. Each of them is one module, with a row in `registry`.

An attempt becomes one run of the tracker. A rollback becomes a fork: the new attempt's run names the run and the step it goes on
from. One attempt is written at a time, in the order of their launches, and its rows by rising step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sentinel.model.readings import StepReading

End = Literal["finished", "failed", "stopped", "going on"]
"""How an attempt ended, as far as anybody saw. `going on`: only this writer leaves it."""


class TrackerError(Exception):
    """The tracker did not take it: a sentence for a person. The same is tried again later."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where an attempt came from: the key of another attempt's run, and the last step of it that is kept."""

    key: str
    step: int


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """One attempt, for a tracker.

    key: names it among all runs of every project, and is the same for every process that writes it. group: what all attempts of
    the run share; group_name for people. is_known: some process has opened it before.
    """

    key: str
    group: str
    group_name: str
    attempt: int
    config: Mapping[str, Any] = field(default_factory=dict)
    fork: Fork | None = None
    is_known: bool = False

    @property
    def name(self) -> str:
        return f"{self.group_name} attempt {self.attempt}"


class Tracker(Protocol):
    """Every call may wait for a network. Raises TrackerError."""

    def open(self, run: AttemptRun) -> None:
        """The run that rows are written to from now on."""

    def log(self, rows: Sequence[StepReading]) -> None:
        """To the open run. A row may come twice where the process before died in between."""

    def tell(self, run: AttemptRun, facts: Mapping[str, Any]) -> None:
        """What is known of the attempt as a whole, in place of what was told before. Where the tracker cannot change a run that
        is closed, this does nothing for one."""

    def close(self, end: End) -> None:
        """Of the open run: it is complete, unless it is `going on`. Returns when the tracker has it, or it is on the disk."""

    def end(self, group: str, end: End) -> None:
        """The run as a whole is over, after its last attempt."""

    def where(self) -> str:
        """For a person: where to look, or the command that uploads."""
