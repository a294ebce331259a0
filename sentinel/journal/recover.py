"""From the journal back to what Sentinel believed: a fold. Nothing is decided again, so an upgrade rewrites no history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sentinel.journal.codec import UNKNOWN_FACT
from sentinel.model.facts import Entry, Fact, Noted

State = TypeVar("State")

_UNKNOWN_KEPT = 20


@dataclass(frozen=True, slots=True)
class Recovered(Generic[State]):
    """The fold, the last entry's number and time (0 for an empty journal), and what this version could not understand."""

    state: State
    last_seq: int
    last_at_s: float
    unknown_count: int
    unknown: tuple[Entry, ...]  # the first 20

    @property
    def warning(self) -> str:
        """A sentence for the operator; empty when every fact was understood."""
        if not self.unknown_count:
            return ""
        first = self.unknown[0]
        assert isinstance(first.fact, Noted)
        facts = "1 fact" if self.unknown_count == 1 else f"{self.unknown_count} facts"
        return f"{facts} of the journal not understood and passed over, the first is entry {first.seq}: {first.fact.reason}"


def recover(entries: Iterable[Entry], evolve: Callable[[State, float, Fact], State], initial: State) -> Recovered[State]:
    """Fold `evolve(state, at_s, fact)` over the entries, oldest first. Facts of unknown kind pass through as `Noted`."""
    state, last_seq, last_at_s = initial, 0, 0.0
    unknown: list[Entry] = []
    unknown_count = 0
    for entry in entries:
        assert entry.seq > last_seq, f"entry {entry.seq} after entry {last_seq}"
        state, last_seq, last_at_s = evolve(state, entry.at_s, entry.fact), entry.seq, entry.at_s
        if isinstance(entry.fact, Noted) and entry.fact.about == UNKNOWN_FACT:
            unknown_count += 1
            if len(unknown) < _UNKNOWN_KEPT:
                unknown.append(entry)
    return Recovered(state, last_seq, last_at_s, unknown_count, tuple(unknown))
