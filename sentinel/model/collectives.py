"""Collectives as a rank's flight recorder tells of them: what it has put in line, and what of that is not done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Collective:
    """One entry of a rank's recorder.

    Attributes:
        group: the process group's description and its members, which identify it on every rank. Members are global ranks.
        number: of the collective within the group, counted alike by every member; of a point-to-point call, the rank's own count.
        state: `scheduled` is in line, `started` runs on the GPU (known only where the recorder takes times), `completed` is done.
        peer: of a point-to-point call the other rank, else None. receives: it waits for that rank's data.
    """

    group: tuple[str, tuple[int, ...]]
    number: int
    name: str
    state: Literal["scheduled", "started", "completed"]
    peer: int | None = None
    receives: bool = False

    @property
    def is_open(self) -> bool:
        return self.state != "completed"


Dumps = Mapping[int, Sequence[Collective]]
"""By global rank."""
