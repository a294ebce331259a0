"""One simulated process, and what a program that runs in the ranks of an attempt must answer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from sentinel.sim.processes import Job


class Program(Protocol):
    """What runs in the ranks of an attempt."""

    def begin(self, job: Job) -> None: ...
    def heard(self, rank: int, number: int) -> bool:
        """A signal other than KILL, STOP and CONT. False: no handler, the default (death) applies."""
        ...

    def died(self, rank: int) -> None:
        """A rank is gone, this instant: nothing it was doing happens any more."""
        ...

    def lost(self, rank: int) -> None:
        """What `rank`, still living, notices after a peer died: the collective it is in fails."""
        ...


@dataclass(slots=True)
class Process:
    """`value` is the exit value once dead: a code, or a negative signal."""

    pid: int
    role: Literal["command", "rank", "helper"]
    rank: int = -1
    is_stopped: bool = False
    value: int | None = None

    @property
    def is_living(self) -> bool:
        return self.value is None
