"""The power is lost after any change that the journal makes to its disk: no act is forgotten, and no history is called lost.

The journal works on a filesystem that writes down every change (tests/recording_disk.py). From this the trees are made that a
loss of power may leave, after each change, four ways of losing what was not synced. In each of them the run is taken over as by
the next supervisor. What was done in the world before the loss has to stand in the journal that is found.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.session import take_run
from sentinel.model.facts import Noted
from tests.hanging_folder import why_not
from tests.recording_disk import RecordingDisk, Tree, crash_states

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no filesystem of our own: {why_not()}")
APPENDS, FOLDED_AFTER = 12, (4, 9)
SAMPLED = 29  # every so many changes in `make test`; all of them in `make accept`


def work(run_dir: Path) -> None:
    """Two supervisors, one after the other; after each append something is done in the world, which leaves a file."""
    run_dir.mkdir()
    number = 0
    for _ in range(2):
        with take_run(run_dir) as session:
            for _ in range(APPENDS):
                number += 1
                session.journal.append(float(number), [Noted(f"{number}", f"fact {number}" * 20)], session.epoch)
                (run_dir / f"done-{number}").touch()
                session.lease.renew(float(number) * 20)
                if number % APPENDS in FOLDED_AFTER:
                    session.journal.fold_when_quiet(number + 3600.0)


def facts_of(run_dir: Path) -> list[str]:
    with take_run(run_dir) as session:
        return [entry.fact.about for entry in session.journal.read_entries() if isinstance(entry.fact, Noted)]


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    place = tmp_path_factory.mktemp("power")
    with RecordingDisk(place / "disk", place / "log") as disk:
        work(disk.path / "run")
        assert facts_of(disk.path / "run") == [str(number) for number in range(1, 2 * APPENDS + 1)]
        return disk.changes()


def check(tree: Tree, done: int, place: Path, words: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
    tree.write_to(place)
    if not (place / "run").is_dir():
        assert done == 0, f"{words}: the run directory is gone with {done} acts"
        return
    found = facts_of(place / "run")
    assert found[:done] == [str(number) for number in range(1, done + 1)], f"{words}: {done} acts were done, facts are {found}"


def check_every(changes: list[dict], stride: int, place: Path) -> int:
    checked = 0
    for after in range(1, len(changes) + 1, stride):
        acts = [change["name"] for change in changes[:after] if change["op"] == "create" and change["name"].startswith("done-")]
        for words, tree in crash_states(changes, after):
            check(tree, len(acts), place, f"after change {after}, {words}")
            checked += 1
    return checked


def test_after_a_loss_of_power_no_act_is_forgotten(changes: list[dict], tmp_path: Path) -> None:
    assert check_every(changes, SAMPLED, tmp_path / "after") > 20


@pytest.mark.slow
def test_nor_after_any_other_change(changes: list[dict], tmp_path: Path) -> None:
    print(f"{check_every(changes, 1, tmp_path / 'after')} states after a loss of power, {len(changes)} changes")


def test_a_journal_that_does_not_sync_is_found_out(changes: list[dict], tmp_path: Path) -> None:
    """Without its syncs the same work loses acts: the check can fail."""
    without = [change for change in changes if change["op"] not in ("fsync", "fsyncdir")]
    assert any(change["op"] == "write" for change in without)
    with pytest.raises((AssertionError, JournalError)):
        check_every(without, SAMPLED, tmp_path / "after")


def test_the_journal_is_what_was_worked_on(changes: list[dict]) -> None:
    assert any(change.get("name") == JOURNAL_NAME for change in changes)
