"""Facts of a newer sentinel: who acts refuses a journal it only half understands."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sentinel.client.run_layout import LEASE_NAME
from sentinel.errors import UsageError
from sentinel.journal.head import Chain, write_head
from sentinel.journal.schema import ROWS
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model.facts import Held


def rename_entry(path: Path, kind: str) -> None:
    """Entry 2 as another version would have written it, with its digests and its head."""
    chain = Chain()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET kind = ? WHERE seq = 2", (kind,))
        for row in connection.execute(ROWS, (0,)).fetchall():
            chain = chain.with_row(row)
            connection.execute("UPDATE facts SET digest = ? WHERE seq = ?", (chain.digest, chain.seq))
    connection.close()
    write_head(path.parent, chain)


def test_an_older_sentinel_does_not_act_on_a_journal_it_only_half_understands(tmp_path: Path) -> None:
    path = tmp_path / "sentinel.db"
    with Journal.open(path) as journal:
        epoch = journal.claim_epoch()
        journal.append(1.0, [Held("a")] * 3, epoch)
    rename_entry(path, "MoonPhaseSeen")
    with pytest.raises(UsageError, match=r"1 of its facts .* entry 2: MoonPhaseSeen: no such fact .* Install the version"):
        take_run(tmp_path)
    with Journal.open(path, read_only=True) as journal:
        assert journal.epoch() == epoch, "nothing was claimed, so the newer supervisor is not fenced off"
    assert not (tmp_path / LEASE_NAME).exists()
    rename_entry(path, "Held")
    with take_run(tmp_path) as session:
        assert session.epoch == epoch + 1, "the lock was let go, and what is understood is taken"
