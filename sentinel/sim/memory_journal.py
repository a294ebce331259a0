"""The journal as rows in memory, through the real codec: what survives a supervisor is exactly what could be read back.

Epochs fence off a supervisor that was taken over, as the real store does. `at_append(side)` is called before and after every
batch is on disk, and may kill the supervisor there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sentinel.errors import Fenced
from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.model.facts import Entry, Fact

Row = tuple[float, int, str, str]
Watcher = Callable[[Sequence[Entry]], None]


class MemoryJournal:
    """`watcher` sees every batch the moment it is on disk, read back from its rows."""

    def __init__(self, at_append: Callable[[str], None], watcher: Watcher) -> None:
        self.rows: list[Row] = []
        self.epoch = 0
        self._at_append = at_append
        self._watcher = watcher

    def claim_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def append(self, at_s: float, facts: Sequence[Fact], epoch: int) -> tuple[Entry, ...]:
        """One batch: all of it survives, or none."""
        if epoch != self.epoch:
            raise Fenced(f"supervisor epoch {self.epoch} took this run over from epoch {epoch}, which must leave")
        self._at_append("before")
        first = len(self.rows)
        self.rows += [(at_s, epoch, *encode_fact(fact)) for fact in facts]
        self._watcher(tuple(self.read_entries(first)))
        self._at_append("after")
        return tuple(Entry(first + 1 + index, at_s, epoch, fact) for index, fact in enumerate(facts))

    def settle(self) -> None:
        """Nothing beside it counts its entries."""

    def read_entries(self, after_seq: int = 0) -> Iterator[Entry]:
        for seq, (at_s, epoch, kind, body) in enumerate(self.rows[after_seq:], after_seq + 1):
            yield Entry(seq, at_s, epoch, decode_fact(kind, body))

    @property
    def last_at_s(self) -> float:
        return self.rows[-1][0] if self.rows else 0.0
