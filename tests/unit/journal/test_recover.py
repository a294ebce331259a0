"""Believing again what was believed: a fold over the entries, with a report of what was not understood."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sentinel.journal.recover import recover
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry, Fact, Held, Noted

History = tuple[tuple[float, Fact], ...]


def evolve(state: History, at_s: float, fact: Fact) -> History:
    return (*state, (at_s, fact))


def test_an_empty_journal_gives_the_initial_state() -> None:
    recovered = recover([], evolve, ())
    assert (recovered.state, recovered.last_seq, recovered.last_at_s, recovered.warning) == ((), 0, 0.0, "")


def test_facts_are_folded_in_order_with_their_times() -> None:
    recovered = recover([Entry(1, 5.0, 1, Held("a")), Entry(3, 6.0, 2, Held("b"))], evolve, ())
    assert recovered.state == ((5.0, Held("a")), (6.0, Held("b")))
    assert (recovered.last_seq, recovered.last_at_s) == (3, 6.0)


def test_facts_of_a_newer_version_are_passed_over_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "sentinel.db"
    with Journal.open(path) as journal:
        journal.append(1.0, [Held("a")] * 30, 0)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE facts SET kind = 'MoonPhaseSeen' WHERE seq > 5")
    connection.close()
    with Journal.open(path) as journal:
        recovered = recover(journal.read_entries(), evolve, ())
    assert len(recovered.state) == 30
    assert all(isinstance(fact, Noted) for _, fact in recovered.state[5:])
    assert (recovered.unknown_count, len(recovered.unknown)) == (25, 20)
    assert recovered.warning.startswith(
        "25 facts of the journal not understood and passed over, the first is entry 6: MoonPhaseSeen"
    )
