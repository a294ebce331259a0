"""What two attempts wrote about the same steps, compared: the evidence of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal["data", "hardware", "transient", "unknown"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Attributes:
    compared: steps that both attempts recorded, counted up to the first difference. 0: nothing can be said.
    differs_at: the first step at which a number (or the data trained on) differs; None when all are equal to the bit.
    metric, before, now: the first differing number there; metric `samples` when the data was not the same.
    ranks: ranks whose own statistics differ at that step; empty when the trainer writes none.
    """

    compared: int
    differs_at: int | None = None
    metric: str = ""
    before: float = 0.0
    now: float = 0.0
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a repetition proved. `ranks`: whom the evidence blames."""

    cause: Cause
    reason: str
    ranks: tuple[int, ...] = ()
