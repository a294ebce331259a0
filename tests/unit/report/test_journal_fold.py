"""A journal is read once: what comes later is folded onto what was read before, and what is not understood is passed over."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.engine import evolve
from sentinel.errors import JournalError, UsageError
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model.facts import Held, Noted
from sentinel.model.state import RunState
from sentinel.report.journal_fold import JournalFold
from sentinel.report.lineage import Lineage
from sentinel.report.tally import Tally
from tests.unit.told_run import at, entries_of, told, write_run


def folded(run_dir: Path) -> JournalFold:
    fold = JournalFold(run_dir)
    fold.catch_up()
    return fold


def test_an_empty_journal_gives_the_initial_state(tmp_path: Path) -> None:
    Journal.open(tmp_path / JOURNAL_NAME).close()
    fold = folded(tmp_path)
    assert (fold.state, fold.seq, fold.last_s, fold.warning, fold.lineage.branches()) == (RunState(), 0, 0.0, "", [])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the directory of a run"):
        folded(tmp_path)


def test_entries_are_folded_in_order_into_state_counters_and_lineage(tmp_path: Path) -> None:
    fold = JournalFold(write_run(tmp_path / "run"))
    state, tally, lineage = RunState(), Tally(), Lineage()
    for (entry, found), expected in zip(fold.read(), entries_of(told()), strict=True):
        assert (entry.at_s, entry.fact) == (expected.at_s, expected.fact)
        tally.take(state, entry)
        state = evolve(state, entry.at_s, entry.fact)
        lineage.take(entry.fact)
        assert found == state
    assert (fold.state, fold.tally, fold.seq, fold.last_s) == (state, tally, len(told()), at(told()[-1][0]))
    assert fold.lineage.branches(600) == lineage.branches(600)
    assert fold.now_s >= fold.last_s


def test_it_goes_on_from_where_it_was(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    fold = folded(run_dir)
    assert fold.seq == len(told(42))
    assert list(fold.read()) == []
    with take_run(run_dir) as session:
        for when, fact in told()[len(told(42)) :]:
            session.journal.append(at(when), [fact], session.epoch)
    assert [entry.seq for entry, _ in fold.read()] == list(range(len(told(42)) + 1, len(told()) + 1))
    whole = folded(run_dir)
    assert (fold.state, fold.tally) == (whole.state, whole.tally)
    assert fold.lineage.branches() == whole.lineage.branches()
    assert fold.schedule.document(fold.lineage.branches(), None) == whole.schedule.document(whole.lineage.branches(), None)


def test_what_lies_before_a_damaged_entry_is_folded_and_it_goes_on_once_that_is_mended(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    with sqlite3.connect(run_dir / JOURNAL_NAME) as connection:
        (body,) = connection.execute("SELECT body FROM facts WHERE seq = 9").fetchone()
        connection.execute("UPDATE facts SET body = '{' WHERE seq = 9")
    fold = JournalFold(run_dir)
    with pytest.raises(JournalError, match="entry 9"):
        fold.catch_up()
    assert fold.seq == 8
    with sqlite3.connect(run_dir / JOURNAL_NAME) as connection:
        connection.execute("UPDATE facts SET body = ? WHERE seq = 9", (body,))
    fold.catch_up()
    assert fold.state == folded(run_dir).state


def test_facts_of_a_newer_version_are_passed_over_and_reported(tmp_path: Path) -> None:
    with Journal.open(tmp_path / JOURNAL_NAME) as journal:
        journal.append(1.0, [Held("a")] * 30, 0)
    with sqlite3.connect(tmp_path / JOURNAL_NAME) as connection:
        connection.execute("UPDATE facts SET kind = 'MoonPhaseSeen' WHERE seq > 5")
    fold = JournalFold(tmp_path)
    facts = [entry.fact for entry, _ in fold.read()]
    assert len(facts) == 30
    assert all(isinstance(fact, Noted) for fact in facts[5:])
    assert fold.warning.startswith("25 facts of the journal not understood and passed over, the first is entry 6: MoonPhaseSeen")
