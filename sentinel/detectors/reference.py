"""The recorded run that a run is compared with, for whoever reads one and for the detector that judges by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Axis = Literal["tokens", "samples", "steps"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A recorded run as a table: its loss at rising places, by each axis it has. At most a few thousand points.

    `tokens` and `samples` are empty where the run does not have them; else as long as `steps` and `losses`.
    """

    name: str
    steps: tuple[float, ...]
    losses: tuple[float, ...]
    tokens: tuple[float, ...] = ()
    samples: tuple[float, ...] = ()

    def places(self, axis: Axis) -> tuple[float, ...]:
        return self.tokens if axis == "tokens" else self.samples if axis == "samples" else self.steps
