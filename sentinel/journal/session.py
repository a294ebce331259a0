"""Taking a run: the one order that is safe. A second `sentinel run` must not disturb the first, so the lock comes before
the journal is opened (which may migrate it) and before an epoch is claimed (which fences off everybody else)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.clock import Clock, SystemClock
from sentinel.errors import AlreadySupervised, JournalEmpty, JournalError, LostHistory, RetryLater, UsageError
from sentinel.filesystem import is_local
from sentinel.journal.codec import UNKNOWN_FACT
from sentinel.journal.identity import is_of_this_boot
from sentinel.journal.lease import STALE_AFTER_S, Lease, read_lease
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.lost_history import refuse_lost_end
from sentinel.journal.run_lock import RunLock
from sentinel.journal.store import Journal
from sentinel.model.facts import JournalAdopted, Noted

CACHES_S = 3.0  # GlusterFS holds for a second what it has seen; NFS asks again when a file is locked


@dataclass(frozen=True, slots=True)
class RunSession:
    """The run is ours until `close`, or until a higher epoch says otherwise."""

    lock: RunLock
    journal: Journal
    lease: Lease

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    def close(self) -> None:
        """Leave in good order, as far as the disk allows; the lock goes last."""
        try:
            self.lease.release()
        except RetryLater:
            pass  # a lease left behind goes stale by itself
        finally:
            self.journal.close()
            self.lock.release()

    def __enter__(self) -> RunSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def take_run(run_dir: Path, watch: LeaseWatch | None = None, lease_s: float = STALE_AFTER_S) -> RunSession:
    """Become the supervisor of `run_dir`, which must exist. `watch`: who has counted how long the lease of the one before has not
    changed. Of several who have, the journal takes the first. `lease_s`: how long the own lease lasts.

    Raises:
        AlreadySupervised, UsageError: see `RunLock.acquire` and `refuse_newer`, or another was faster; nothing was claimed.
        LostHistory: see `lost_history`; nothing was claimed.
        JournalError: the journal cannot be opened.
        RetryLater: the lease could not be written.
    """
    lock = RunLock.acquire(run_dir, watch)
    try:
        wait_for_caches(run_dir, SystemClock())
        _refuse_lost_end_unopened(run_dir)
        journal = Journal.open(run_dir / JOURNAL_NAME)
        try:
            refuse_lost_end(run_dir, journal)
            refuse_newer(journal)
            epoch = _claim(run_dir, journal, lock, watch)
            if journal.adopted is not None:
                journal.append(journal.last_at_s(), [JournalAdopted(journal.adopted.seq, journal.adopted.digest)], epoch)
            return RunSession(lock, journal, Lease.publish(lock, epoch, lasts_s=lease_s))
        except BaseException:
            journal.close()
            raise
    except BaseException:
        lock.release()
        raise


def wait_for_caches(run_dir: Path, clock: Clock) -> None:
    """Until what a supervisor on another machine wrote last is seen here. On a shared filesystem this machine may hold what it
    saw of the journal a moment ago, beside a newer journal.head, and that would look like lost history."""
    before = read_lease(run_dir)
    if before is not None and not is_of_this_boot(before.holder) and not is_local(run_dir):
        clock.wait(threading.Event(), CACHES_S)


def _claim(run_dir: Path, journal: Journal, lock: RunLock, watch: LeaseWatch | None) -> int:
    """The next epoch. Whoever takes the run because he has seen a lease run out gets it only where nobody has claimed one since
    that lease: the lock may not reach from machine to machine. Then the lock is his as well. Raises AlreadySupervised."""
    if watch is None or not lock.is_counted:
        return journal.claim_epoch()
    epoch = journal.claim_epoch(after=watch.epoch)
    if epoch is None:
        watch.note_claim(journal.epoch())
        raise AlreadySupervised(f"{run_dir}: another supervisor is taking it over just now", is_elsewhere=True)
    lock.replace()
    return epoch


def _refuse_lost_end_unopened(run_dir: Path) -> None:
    """Look before the journal is opened for writing: that folds sentinel.db-wal and deletes it, and with it what could be saved
    of a damaged one. What cannot be looked at so (a write that was cut short) is looked at after it was mended."""
    path = run_dir / JOURNAL_NAME
    try:
        with Journal.open(path, read_only=True) as journal:
            refuse_lost_end(run_dir, journal)
    except JournalEmpty:
        refuse_lost_end(run_dir, None)
    except LostHistory:
        raise
    except JournalError:
        if not path.exists():
            refuse_lost_end(run_dir, None)


def refuse_newer(journal: Journal) -> None:
    """Raises UsageError where a newer sentinel wrote a fact this one does not understand: the state folded without it may be
    wrong (an action that is pending, a checkpoint that is condemned), and whoever only looks may pass it over, not who acts."""
    unknown = [e for e in journal.read_entries() if isinstance(e.fact, Noted) and e.fact.about == UNKNOWN_FACT]
    if unknown:
        first = unknown[0]
        assert isinstance(first.fact, Noted)
        raise UsageError(
            f"{journal.path}: {len(unknown)} of its facts cannot be understood, the first is entry {first.seq}: "
            f"{first.fact.reason}. Install the version that wrote them, or a later one, to go on with this run; "
            "`sentinel status` shows what this one can read"
        )
