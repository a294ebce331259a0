"""`sentinel journal verify|salvage`: what is whole of a damaged journal, and a run that goes on from it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, LEASE_NAME
from sentinel.engine import Engine
from sentinel.errors import AlreadySupervised, UsageError
from sentinel.journal.session import take_run
from sentinel.launcher.living import living_attempts
from sentinel.model.attempts import Alive, AttemptView, NotStarted
from sentinel.model.facts import Held, JournalSalvaged
from sentinel.operator import salvaging
from sentinel.operator.salvaging import salvage
from tests.builders import build_policy
from tests.unit.journal.test_lost_history import WAL, copied_live, lose_wal


def verify(run_dir: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["journal", "verify", str(run_dir)])
    return done.exit_code, done.stdout


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return copied_live(tmp_path / "run", tmp_path / "copy")


def change_entry(run_dir: Path, number: int) -> None:
    with sqlite3.connect(run_dir / JOURNAL_NAME, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET body = replace(body, 'reason', 'season') WHERE seq = ?", (number,))
    connection.close()


def test_a_whole_journal_is_said_to_be_whole_and_is_not_salvaged(run_dir: Path) -> None:
    assert verify(run_dir) == (0, "21 entries, all as they were written\n")
    with pytest.raises(UsageError, match="nothing to salvage"):
        salvage(run_dir, None, accept_loss=True)


def test_the_entries_before_the_damage_are_taken_over_once_a_person_accepts_the_loss(run_dir: Path) -> None:
    change_entry(run_dir, 14)
    code, said = verify(run_dir)
    assert code == 1
    assert "entry 14 is not the one that was written there" in said
    assert "the first 13 entries are as they were written" in said
    with pytest.raises(UsageError, match=r"13 entries are whole, and 8 entries are lost.*--accept-loss"):
        salvage(run_dir, None, accept_loss=False)
    assert verify(run_dir)[0] == 1, "and nothing was changed"
    done = salvage(run_dir, None, accept_loss=True)
    assert (done.entries, done.lost) == (13, 8)
    assert verify(run_dir) == (0, "14 entries, all as they were written\n")
    with sqlite3.connect(done.kept_in / JOURNAL_NAME) as kept:
        assert kept.execute("SELECT count(*) FROM facts").fetchone() == (21,)
    kept.close()
    with take_run(run_dir) as session:
        assert session.epoch == 2
        *_, last = session.journal.read_entries()
        assert last.fact == JournalSalvaged(8, done.kept_in.name, 1)


def test_from_a_whole_copy_nothing_is_lost(run_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(run_dir, tmp_path / "backup")
    lose_wal(run_dir)
    done = salvage(run_dir, tmp_path / "backup", accept_loss=False)
    assert (done.entries, done.lost) == (21, 0)
    assert verify(run_dir)[0] == 0


def test_attempts_that_the_journal_forgot_keep_their_numbers(run_dir: Path) -> None:
    (run_dir / "attempts/0007").mkdir()
    lose_wal(run_dir)
    salvage(run_dir, None, accept_loss=True)
    engine = Engine(build_policy())
    with take_run(run_dir) as session:
        engine.restore(session.journal.read_entries())
    assert engine.state.next_attempt == 8


def test_a_head_that_is_gone_leaves_unknown_how_much_is_lost(run_dir: Path) -> None:
    (run_dir / HEAD_NAME).unlink()
    with pytest.raises(UsageError, match="21 entries are whole, and it is unknown how many"):
        salvage(run_dir, None, accept_loss=False)
    assert salvage(run_dir, None, accept_loss=True).lost is None
    take_run(run_dir).close()


def test_old_copies_that_agree_with_each_other_are_missing_what_the_newest_attempt_s_head_counts(tmp_path: Path) -> None:
    """All files of the journal were put back to an earlier hour of the same attempt."""
    run_dir, old = tmp_path / "run", tmp_path / "old"
    copied_live(run_dir, old)
    with take_run(run_dir) as session:
        session.journal.append(30.0, [Held(f"later {number}") for number in range(8)], session.epoch)
        session.journal.settle()
    for name in (JOURNAL_NAME, WAL, HEAD_NAME, LEASE_NAME):
        (run_dir / name).unlink(missing_ok=True)
        shutil.copy2(old / name, run_dir / name)
    with pytest.raises(UsageError, match="8 entries are lost"):
        salvage(run_dir, None, accept_loss=False)


def test_what_stands_in_the_place_of_the_journal_is_moved_aside(run_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "backup"
    shutil.copytree(run_dir, copy)
    for name in (JOURNAL_NAME, WAL):
        (run_dir / name).unlink()
    os.mkfifo(run_dir / JOURNAL_NAME)
    (run_dir / WAL).mkdir()
    assert "is a FIFO" in verify(run_dir)[1]
    assert salvage(run_dir, copy, accept_loss=True).entries == 21
    assert verify(run_dir)[0] == 0


def test_what_salvage_refuses(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = copied_live(tmp_path / "run2", tmp_path / "copy2")
    with take_run(tmp_path / "run"), pytest.raises(AlreadySupervised):
        salvage(tmp_path / "run", None, accept_loss=True)
    change_entry(run_dir, 14)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no whole entry"):
        salvage(run_dir, tmp_path / "empty", accept_loss=True)
    with sqlite3.connect(other / JOURNAL_NAME, isolation_level=None) as connection:
        connection.execute("PRAGMA user_version = 1")  # so that its changed entries count as whole
        connection.execute("UPDATE facts SET at_s = at_s + 1")
    connection.close()
    with pytest.raises(UsageError, match="its entries differ"):
        salvage(run_dir, other, accept_loss=True)
    with pytest.raises(UsageError, match="not the directory of a run"):
        salvage(tmp_path / "empty", None, accept_loss=True)
    monkeypatch.setattr(salvaging, "living_attempts", lambda run_dir, launcher: {3: (41, 42)})
    with pytest.raises(UsageError, match=r"attempt 3 is alive, .* kill 41 42"):
        salvage(run_dir, None, accept_loss=True)


class Seen:
    """A launcher whose attempt 2 lives."""

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return Alive(2, 1, (os.getpid(),)) if attempt == 2 else NotStarted(attempt)


def test_attempts_without_an_exit_record_are_looked_at(tmp_path: Path) -> None:
    assert living_attempts(tmp_path, Seen()) == {}  # type: ignore[arg-type]
    for number in (1, 2):
        (tmp_path / f"attempts/000{number}").mkdir(parents=True)
    assert living_attempts(tmp_path, Seen()) == {2: (os.getpid(),)}  # type: ignore[arg-type]
    (tmp_path / "attempts/0002/exit.json").write_text("{}")
    assert living_attempts(tmp_path, Seen()) == {}  # type: ignore[arg-type]


def test_a_write_ahead_log_that_is_lost_is_kept_as_it_was(run_dir: Path) -> None:
    text = (run_dir / WAL).read_bytes()
    (run_dir / WAL).write_bytes(text[: len(text) // 2])
    done = salvage(run_dir, None, accept_loss=True)
    assert (done.kept_in / WAL).read_bytes() == text[: len(text) // 2]
    assert 0 < done.entries < 21
    assert done.lost == 21 - done.entries
