"""Believing again what was believed: a fold over the entries, with a report of what was not understood."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.journal.lease import LEASE_NAME
from sentinel.journal.recover import recover
from sentinel.journal.session import take_run
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


def test_an_older_sentinel_does_not_act_on_a_journal_it_only_half_understands(tmp_path: Path) -> None:
    path = tmp_path / "sentinel.db"
    with Journal.open(path) as journal:
        epoch = journal.claim_epoch()
        journal.append(1.0, [Held("a")] * 3, epoch)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET kind = 'MoonPhaseSeen' WHERE seq = 2")
    connection.close()
    with pytest.raises(UsageError, match=r"1 of its facts .* entry 2: MoonPhaseSeen: no such fact .* Install the version"):
        take_run(tmp_path)
    with Journal.open(path, read_only=True) as journal:
        assert journal.epoch() == epoch, "nothing was claimed, so the newer supervisor is not fenced off"
    assert not (tmp_path / LEASE_NAME).exists()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET kind = 'Held' WHERE seq = 2")
    connection.close()
    with take_run(tmp_path) as session:
        assert session.epoch == epoch + 1, "the lock was let go, and what is understood is taken"
