"""A lock that is kept by a supervisor which stands still is gone on without, by one successor and no more."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME, LOCK_NAME
from sentinel.errors import AlreadySupervised, Fenced, LeaseOverdue, RetryLater
from sentinel.journal.lease import STALE_AFTER_S
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.run_lock import RunLock
from sentinel.journal.session import RunSession, _claim, take_run
from sentinel.journal.store import Journal
from sentinel.model.facts import Held


class Counting:
    """A standby's count, whose looks take no time."""

    def __init__(self, run_dir: Path) -> None:
        self._now_s = 0.0
        self.watch = LeaseWatch(run_dir, lambda: self._now_s)

    def run_out(self) -> LeaseWatch:
        for _ in range(32):
            self.watch.look()
            self._now_s += 2.0
        return self.watch


@pytest.fixture
def first(tmp_path: Path) -> Iterator[RunSession]:
    """A supervisor that holds lock, journal and lease, and does nothing: stopped, as it were."""
    session = take_run(tmp_path)
    yield session
    session.journal.close()
    session.lock.release()


def test_a_lock_is_kept_while_the_lease_has_not_run_out(first: RunSession, tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.watch.look()
    with pytest.raises(AlreadySupervised):
        take_run(tmp_path, counting.watch)


def test_whoever_saw_the_lease_run_out_takes_the_run_from_one_that_keeps_the_lock(first: RunSession, tmp_path: Path) -> None:
    with take_run(tmp_path, Counting(tmp_path).run_out()) as second:
        assert second.epoch == 2
        assert second.lock.is_held
        with pytest.raises(Fenced):
            first.journal.append(1.0, [Held("late")], first.epoch)
        with pytest.raises(Fenced):
            first.lease.hold()
        with pytest.raises(AlreadySupervised):
            take_run(tmp_path)
    assert [path.name for path in tmp_path.glob(f"{LOCK_NAME}*")] == [LOCK_NAME]


def test_one_that_took_over_takes_the_run_anew_as_any_supervisor_does(first: RunSession, tmp_path: Path) -> None:
    """With a new policy, or after it was stopped itself: what it once counted says nothing of its own lease."""
    counted = Counting(tmp_path).run_out()
    take_run(tmp_path, counted).close()
    with take_run(tmp_path, counted) as again:
        assert again.epoch == 3


def test_of_two_that_saw_it_run_out_one_gets_it(first: RunSession, tmp_path: Path) -> None:
    """Both have passed the lock before either has claimed an epoch."""
    one, other = Counting(tmp_path).run_out(), Counting(tmp_path).run_out()
    kept = RunLock.acquire(tmp_path, other)
    assert not kept.is_held
    with take_run(tmp_path, one) as second:
        with Journal.open(tmp_path / JOURNAL_NAME) as journal:
            assert journal.claim_epoch(after=other.epoch) is None
        with pytest.raises(AlreadySupervised):
            take_run(tmp_path, other)
        second.journal.append(1.0, [Held("mine")], second.epoch)
    kept.release()


def test_one_that_died_between_its_claim_and_its_lease_is_waited_for_once_more(first: RunSession, tmp_path: Path) -> None:
    with Journal.open(tmp_path / JOURNAL_NAME) as journal:
        assert journal.claim_epoch() == 2
    counting = Counting(tmp_path)
    with pytest.raises(AlreadySupervised, match="is taking it over just now"):
        take_run(tmp_path, counting.run_out())
    assert not counting.watch.has_run_out
    with take_run(tmp_path, counting.run_out()) as session:
        assert session.epoch == 3


def test_a_lock_that_does_not_reach_from_machine_to_machine_lets_one_in_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounted without locks, so that each machine has its own: the lease has run out, and two come at once."""
    monkeypatch.setattr("sentinel.journal.run_lock.is_of_this_boot", lambda who: False)
    gone = take_run(tmp_path)
    gone.journal.close()
    gone.lock.release()
    one, other = Counting(tmp_path).run_out(), Counting(tmp_path).run_out()
    lock = RunLock.acquire(tmp_path, other)
    assert (lock.is_held, lock.is_counted) == (True, True)
    (tmp_path / LOCK_NAME).unlink()
    with take_run(tmp_path, one) as second, Journal.open(tmp_path / JOURNAL_NAME) as journal:
        with pytest.raises(AlreadySupervised, match="is taking it over just now"):
            _claim(tmp_path, journal, lock, other)
        second.journal.append(1.0, [Held("mine")], second.epoch)
    lock.release()


def test_a_first_that_goes_on_too_late_does_not_make_up_for_its_renewal(tmp_path: Path) -> None:
    """Between the claim of a standby and its lease nothing in lease.json tells of it."""
    times = [0.0]
    session = take_run(tmp_path)
    session.lease._now = lambda: times[-1]
    session.lease._held_s = 0.0
    before = (tmp_path / "lease.json").read_bytes()
    times.append(STALE_AFTER_S * 0.75)
    session.lease.hold()
    times.append(STALE_AFTER_S * 0.75 + 0.1)
    for act in (session.lease.hold, lambda: session.lease.renew(1e9), lambda: session.lease.set_attempt(7)):
        with pytest.raises(LeaseOverdue, match=r"was not renewed for 45 s, and is another's to take after 60 s"):
            act()
    session.close()
    assert (tmp_path / "lease.json").read_bytes() == before, "nor is it called released: whoever counts may have it by now"


def test_a_disk_that_takes_nothing_any_more_ends_the_acts_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared directory has turned read-only."""
    times, session = [0.0], take_run(tmp_path)
    session.lease._now = lambda: times[-1]
    session.lease._held_s = 0.0
    session.lease.renew(0.0)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("sentinel.journal.lease.os.utime", refuse)
    monkeypatch.setattr("sentinel.journal.lease.os.pwrite", refuse)
    for at_s in range(10, 50, 10):
        times.append(float(at_s))
        with pytest.raises(RetryLater, match="Read-only file system"):
            session.lease.renew(float(at_s))
        session.lease.hold()
    times.append(45.5)
    for act in (session.lease.hold, lambda: session.lease.renew(45.5)):
        with pytest.raises(LeaseOverdue):
            act()
    monkeypatch.undo()
    session.close()
