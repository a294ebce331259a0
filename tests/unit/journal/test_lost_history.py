"""A journal that has lost its end is refused: by its head, by the lease, by the folders of attempts."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, LEASE_NAME, attempt_folder
from sentinel.errors import JournalError, LostHistory
from sentinel.journal.head import read_head, read_second_head
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model.attempts import SettingsInForce
from sentinel.model.facts import AttemptLaunched, Held, InspectionLaunched, JournalAdopted
from tests.unit.journal.test_schema import VERSION_1, write

WAL = JOURNAL_NAME + "-wal"


def copied_live(run_dir: Path, copy: Path) -> Path:
    """The directory of a run as a supervisor that was killed leaves it: its entries stand in the -wal file."""
    run_dir.mkdir()
    with take_run(run_dir) as session:
        session.journal.append(1.0, [AttemptLaunched(1, None, SettingsInForce(), "first start")], session.epoch)
        attempt_folder(run_dir, 1).mkdir(parents=True)
        for number in range(20):
            session.journal.append(2.0 + number, [Held(f"reason {number}")], session.epoch)
            session.journal.settle()
        shutil.copytree(run_dir, copy)
    assert (copy / WAL).stat().st_size > 0
    return copy


def lose_wal(run_dir: Path) -> None:
    (run_dir / WAL).unlink()


def empty_database(run_dir: Path) -> None:
    (run_dir / JOURNAL_NAME).write_bytes(b"")
    (run_dir / WAL).unlink()


def lose_journal(run_dir: Path) -> None:
    (run_dir / JOURNAL_NAME).unlink()
    (run_dir / WAL).unlink()


def cut_wal(run_dir: Path) -> None:
    text = (run_dir / WAL).read_bytes()
    (run_dir / WAL).write_bytes(text[: len(text) // 2])


@pytest.mark.parametrize("damage", [lose_wal, empty_database, lose_journal, cut_wal])
@pytest.mark.parametrize("kept", [(HEAD_NAME,), (LEASE_NAME,), ("attempts",), (HEAD_NAME, LEASE_NAME, "attempts")], ids=str)
def test_a_journal_that_lost_its_end_is_refused(tmp_path: Path, damage: Callable[[Path], None], kept: tuple[str, ...]) -> None:
    run_dir = copied_live(tmp_path / "run", tmp_path / "copy")
    damage(run_dir)
    if damage is cut_wal and HEAD_NAME not in kept:
        pytest.skip("half a -wal still holds the epoch and the attempt: only the head tells")
    for name in {HEAD_NAME, LEASE_NAME, "attempts"} - {*kept}:
        shutil.rmtree(run_dir / name) if (run_dir / name).is_dir() else (run_dir / name).unlink()
    before = {file.name: file.read_bytes() for file in run_dir.iterdir() if file.name in (WAL, LEASE_NAME, JOURNAL_NAME)}
    with pytest.raises(LostHistory, match=r"is not whole: .* Nothing was touched"):
        take_run(run_dir)
    assert {name: (run_dir / name).read_bytes() for name in before} == before, "the evidence is kept"


def test_what_was_lost_is_said(tmp_path: Path) -> None:
    run_dir = copied_live(tmp_path / "run", tmp_path / "copy")
    lose_wal(run_dir)
    with pytest.raises(LostHistory) as told:
        take_run(run_dir)
    for part in ("epoch 1, and the journal knows of none", "counts 21 entries, and the journal holds none", "attempt 1 has a"):
        assert part in str(told.value)


def test_old_copies_of_all_three_files_within_one_attempt_are_refused(tmp_path: Path) -> None:
    """They agree with each other: what was asked since is forgotten, and only the attempt's own copy of the head tells."""
    run_dir, old = tmp_path / "run", tmp_path / "old"
    run_dir.mkdir()
    old.mkdir()
    with take_run(run_dir) as session:
        session.journal.append(1.0, [AttemptLaunched(1, None, SettingsInForce(), "first start")], session.epoch)
        attempt_folder(run_dir, 1).mkdir(parents=True)
        session.journal.append(2.0, [Held("before")], session.epoch)
        for name in (JOURNAL_NAME, WAL, HEAD_NAME, LEASE_NAME):
            shutil.copy(run_dir / name, old)
        session.journal.append(3.0, [Held("a person asked for something")], session.epoch)
    for file in old.iterdir():
        shutil.copy(file, run_dir)
    with pytest.raises(LostHistory, match=r"attempts/0001/journal\.head counts 3 entries, and the journal holds 2"):
        take_run(run_dir)


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", None])
def test_the_attempts_own_copy_of_the_head_may_be_lost_and_may_lag(tmp_path: Path, text: bytes | None) -> None:
    run_dir = copied_live(tmp_path / "run", tmp_path / "copy")
    second = attempt_folder(run_dir, 1) / HEAD_NAME
    with take_run(run_dir) as session:
        before = second.read_bytes()
        session.journal.append(100.0, [Held("on")], session.epoch)
        assert second.read_bytes() == before, "a decision does not wait for it"
        session.journal.settle()
        assert read_second_head(run_dir) == read_head(run_dir)
        assert second.read_bytes() != before
    second.unlink() if text is None else second.write_bytes(text)
    take_run(run_dir).close()
    second.write_bytes(before)
    take_run(run_dir).close()


def test_an_old_copy_put_over_the_file_in_use_ends_the_writing(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        session.journal.append(1.0, [Held("a")], session.epoch)
        session.journal.append(2.0, [Held("b")], session.epoch)
        with sqlite3.connect(tmp_path / JOURNAL_NAME, isolation_level=None) as other:
            other.execute("DELETE FROM facts WHERE seq = 2")
        with pytest.raises(JournalError, match="ends with entry 1 now, and ended with entry 2: somebody changed it"):
            session.journal.append(3.0, [Held("c")], session.epoch)
        other.close()


@given(where=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_a_flipped_byte_loses_nothing_without_a_word(tmp_path_factory: pytest.TempPathFactory, where: float, mask: int) -> None:
    tmp_path = tmp_path_factory.mktemp("flip")
    run_dir = copied_live(tmp_path / "run", tmp_path / "copy")
    text = bytearray((run_dir / WAL).read_bytes())
    text[int(where * len(text))] ^= mask
    (run_dir / WAL).write_bytes(text)
    try:
        with take_run(run_dir) as session:
            reasons = [entry.fact.reason for entry in session.journal.read_entries() if isinstance(entry.fact, Held)]
    except (LostHistory, JournalError):
        return
    assert reasons == [f"reason {number}" for number in range(20)]


def test_a_whole_copy_is_taken_and_the_head_goes_on(tmp_path: Path) -> None:
    run_dir = copied_live(tmp_path / "run", tmp_path / "copy")
    for again in range(3):
        with take_run(run_dir) as session:
            assert session.epoch == 2 + again
            session.journal.append(100.0 + again, [Held("again")], session.epoch)


def test_a_head_that_lags_is_no_loss(tmp_path: Path) -> None:
    run_dir = tmp_path
    with take_run(run_dir) as session:
        session.journal.append(1.0, [Held("a")], session.epoch)
        old = (run_dir / HEAD_NAME).read_bytes()
        session.journal.append(2.0, [Held("b")], session.epoch)
    (run_dir / HEAD_NAME).write_bytes(old)
    take_run(run_dir).close()


def test_a_chained_journal_without_its_head_is_refused(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        session.journal.append(1.0, [Held("a")], session.epoch)
    (tmp_path / HEAD_NAME).unlink()
    with pytest.raises(LostHistory, match=r"journal\.head is gone, .* the journal holds 1"):
        take_run(tmp_path)


def test_a_journal_from_before_there_were_chains_is_adopted_once_by_a_fact(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL_NAME, VERSION_1)
    for _ in range(2):
        with take_run(tmp_path) as session:
            facts = [entry.fact for entry in session.journal.read_entries()]
            session.journal.append(2000.0, [Held("on")], session.epoch)
        adopted = [fact for fact in facts if isinstance(fact, JournalAdopted)]
        assert [fact.entries for fact in adopted] == [2]
        assert facts.index(adopted[0]) == 2


@pytest.mark.parametrize("lost", ["DELETE FROM facts WHERE seq = 2", "UPDATE facts SET at_s = 1.0 WHERE seq = 1"])
def test_an_older_journal_put_back_beside_a_head_is_no_adoption(tmp_path: Path, lost: str) -> None:
    write(tmp_path / JOURNAL_NAME, VERSION_1)
    take_run(tmp_path).close()
    (tmp_path / JOURNAL_NAME).unlink()
    (tmp_path / LEASE_NAME).unlink()
    write(tmp_path / JOURNAL_NAME, f"{VERSION_1}; {lost}")
    with pytest.raises(LostHistory):
        take_run(tmp_path)


def test_a_supervisor_killed_between_the_first_head_and_the_chain_is_succeeded(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL_NAME, VERSION_1)
    shutil.copy(tmp_path / JOURNAL_NAME, tmp_path / "before")
    Journal.open(tmp_path / JOURNAL_NAME).close()
    shutil.copy(tmp_path / "before", tmp_path / JOURNAL_NAME)
    with take_run(tmp_path) as session:
        assert [entry.seq for entry in session.journal.read_entries()] == [1, 2, 3]


def test_an_inspection_uses_up_the_number_of_its_folder(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        session.journal.append(1.0, [InspectionLaunched(1, 1)], session.epoch)
    attempt_folder(tmp_path, 1).mkdir(parents=True)
    take_run(tmp_path).close()


def test_after_a_quiet_second_the_write_ahead_log_holds_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (tmp_path / "run").mkdir()
    with take_run(tmp_path / "run") as session:
        for number in range(20):
            session.journal.append(2.0 + number, [Held(f"reason {number}")], session.epoch)
        session.journal.fold_when_quiet(21.5)
        assert (tmp_path / "run" / WAL).stat().st_size > 0, "not yet quiet"
        with Journal.open(tmp_path / "run" / JOURNAL_NAME, read_only=True) as reader:
            entries = reader.read_entries()
            next(entries)
            session.journal.fold_when_quiet(22.5)
        session.journal.fold_when_quiet(23.5)
        assert (tmp_path / "run" / WAL).stat().st_size == 0
        shutil.copytree(tmp_path / "run", copy)
    (copy / WAL).unlink()
    with take_run(copy) as session:
        assert session.journal.end().seq == 20


def test_an_entry_that_was_changed_is_seen(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        session.journal.append(1.0, [Held("a"), Held("b")], session.epoch)
    with sqlite3.connect(tmp_path / JOURNAL_NAME, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET at_s = 0.5 WHERE seq = 1")
    connection.close()
    with pytest.raises(LostHistory, match="entry 1 is not the one that was written there"):
        take_run(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", b'{"seq": "3", "digest": ""}', b"\xff" * 90])
def test_a_head_that_cannot_be_read_is_refused_with_the_remedy(tmp_path: Path, text: bytes) -> None:
    with take_run(tmp_path) as session:
        session.journal.append(1.0, [Held("a")], session.epoch)
    (tmp_path / HEAD_NAME).write_bytes(text)
    with pytest.raises(LostHistory, match=r"journal\.head: cannot be read .*`sentinel journal verify"):
        take_run(tmp_path)


def test_a_head_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / HEAD_NAME).mkdir()
    (tmp_path / HEAD_NAME / "x").touch()
    with pytest.raises(LostHistory, match="cannot be read"):
        take_run(tmp_path)
    shutil.rmtree(tmp_path / HEAD_NAME)
    with take_run(tmp_path) as session:
        (tmp_path / HEAD_NAME).unlink()
        (tmp_path / HEAD_NAME).mkdir()
        (tmp_path / HEAD_NAME / "x").touch()
        assert session.journal.append(1.0, [Held("a")], session.epoch)
