"""How well it is known that a setting is in force as it was asked.

A trainer that only repeats what it was asked proves nothing: asked to leave samples out at half the learning rate, one trained on
them at the full rate, and its receipt repeated the request word for word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sentinel.client.settings import SETTINGS

Grade = Literal["read_back", "observed", "asserted", "none", "contradicted"]

PROVEN: tuple[Grade, ...] = ("read_back", "observed")
GRADE_WORDS: dict[Grade, str] = {
    "read_back": "read back from the trainer",
    "observed": "observed in its stream",
    "asserted": "said or passed as an argument, and not seen",
    "none": "not shown by anything",
    "contradicted": "contradicted by its stream",
}


@dataclass(frozen=True, slots=True)
class Proof:
    """Of one setting of an attempt, or of `skip`.

    read_back: the trainer read it from its live state. observed: its stream shows it. asserted: the trainer only repeats it, or a
    flag was passed. none: not even that. contradicted: its stream shows that it is not in force."""

    key: str
    grade: Grade

    @property
    def is_proven(self) -> bool:
        return self.grade in PROVEN

    @property
    def words(self) -> str:
        """For people: `learning rate: read back from the trainer`."""
        label = SETTINGS[self.key].label if self.key in SETTINGS else "samples left out"
        return f"{label}: {GRADE_WORDS[self.grade]}"


def grade_of(proofs: Iterable[Proof], key: str) -> Grade:
    """Of one setting, or of `skip`."""
    return next((proof.grade for proof in proofs if proof.key == key), "none")


def merge_proofs(before: Iterable[Proof], newer: Iterable[Proof]) -> tuple[Proof, ...]:
    """The newest grade of each setting, in the order in which they were first graded."""
    return tuple({proof.key: proof for proof in (*before, *newer)}.values())
