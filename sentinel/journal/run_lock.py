"""Who may supervise a run, on this machine: RUN_DIR/sentinel.lock, an flock that is held while the supervisor lives and dies with
it, kill -9 included. For other machines there is the lease.

A machine that has died, or a supervisor that stands still, may keep the lock: a file server gives it back when it gives up the
machine, or never. Whoever has counted the whole length of the lease without a change (`lease_watch.py`) goes on without it. The
journal decides between several of them: it gives the next epoch to the one who names the epoch that he has seen run out. He alone
then puts a lock file of his own in the place of the other (`replace`). The one before finds a higher epoch whatever he does next.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from sentinel.client.closed_files import open_closed
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import LEASE_NAME, LOCK_NAME
from sentinel.errors import AlreadySupervised, UsageError
from sentinel.journal.identity import is_alive, is_of_this_boot
from sentinel.journal.lease import LeaseRecord, parse_lease, read_lease
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.model.amounts import time_words
from sentinel.run_files.cluster_job import read_job

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class RunLock:
    """The exclusive right to supervise one run directory, held until `release` or the end of the process. `is_held` False: the
    one before keeps the lock, and his lease has run out. `is_counted`: that a lease has run out is all that lets this one in, so
    the right is to be had from the journal: others may have counted, too."""

    def __init__(self, run_dir: Path, handle: int, *, is_held: bool = True, is_counted: bool = False) -> None:
        self.run_dir, self.is_held, self.is_counted = run_dir, is_held, is_counted
        self._handle: int | None = handle

    @classmethod
    def acquire(cls, run_dir: Path, watch: LeaseWatch | None = None) -> RunLock:
        """Take the run directory, which must exist, without waiting. `watch`: who has counted how long the lease is silent.

        Raises:
            AlreadySupervised: a living supervisor has it, here or on another machine.
            UsageError: the directory cannot be locked.
        """
        try:
            handle = open_closed(run_dir / LOCK_NAME, os.O_RDWR)
        except OSError as error:
            raise UsageError(
                f"{run_dir}: cannot be supervised: {error.strerror}; sentinel must be able to write there"
            ) from error
        try:
            is_held, is_counted = _lock(run_dir, handle, watch), True
            if is_held:
                _refuse_replaced(run_dir, handle)
                is_counted = _refuse_living_holder(run_dir, handle, watch)
        except BaseException:
            os.close(handle)
            raise
        return cls(run_dir, handle, is_held=is_held, is_counted=is_counted)

    def replace(self) -> None:
        """Put a lock file of one's own in the place of one that is kept by whoever was taken over. For the one alone to whom the
        journal has given the run. Raises UsageError."""
        if self.is_held:
            return
        path = self.run_dir / LOCK_NAME
        beside = path.with_name(f"{LOCK_NAME}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                beside.unlink()  # of a process that had this pid before
            handle = open_closed(beside, os.O_RDWR | os.O_EXCL)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                beside.rename(path)  # from then on it is seen, and held
            except BaseException:
                os.close(handle)
                raise
        except OSError as error:
            raise UsageError(f"{self.run_dir}: its lock cannot be replaced: {error.strerror}") from error
        self.release()
        self._handle, self.is_held = handle, True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock(run_dir: Path, handle: int, watch: LeaseWatch | None) -> bool:
    """False where another has it, whose lease has run out."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if watch is not None and watch.covers_now():
            return False
        record = read_lease(run_dir)
        holder = f"pid {record.holder.pid} on {record.holder.host}" if record else "a supervisor that is just starting"
        refused = f"{run_dir}: already supervised by {holder}; end it with: sentinel stop {run_dir}"
        # A file server keeps the lock of a machine that died until it gives that machine up.
        raise AlreadySupervised(refused, is_elsewhere=record is not None and not is_of_this_boot(record.holder)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise UsageError(f"{run_dir}: cannot be locked: {error.strerror}") from error
        raise UsageError(
            f"{run_dir}: its filesystem has no file locks ({error.strerror}), so two supervisors could not be told apart; "
            "mount it with locks (Lustre: -o flock) or use another directory"
        ) from error
    return True


def _refuse_replaced(run_dir: Path, handle: int) -> None:
    """Whoever has the run now has put another file in the place of this one since it was opened."""
    with suppress(OSError):
        if not os.path.samestat(os.fstat(handle), os.stat(run_dir / LOCK_NAME)):
            raise AlreadySupervised(f"{run_dir}: another supervisor is taking it over just now", is_elsewhere=True)


def _refuse_living_holder(run_dir: Path, lock_handle: int, watch: LeaseWatch | None) -> bool:
    """The lock reaches every supervisor of this boot; one elsewhere shows only by a lease that is being renewed. True where that
    it has run out is all that tells."""
    found = _read_with_time(run_dir)
    if found is None or found[0].released:
        return False
    record, renewed_s = found
    who, own = record.holder, read_job(os.environ)
    is_here = is_of_this_boot(who)
    if is_here and (is_alive(who) is not True or who.pid == os.getpid()):
        return False
    if not is_here and own is not None and record.job is not None and own.succeeds(record.job):
        return False
    if watch is not None and watch.covers_now():
        return True
    if is_here:  # it lost its lock file, not its life
        raise AlreadySupervised(f"{run_dir}: already supervised by pid {who.pid}; end it with: sentinel stop {run_dir}")
    os.utime(lock_handle)  # the file server's own clock, the one the lease's time was made with
    age_s = os.fstat(lock_handle).st_mtime - renewed_s
    if age_s < record.lasts_s or (watch is not None and not watch.trusts_times):
        raise AlreadySupervised(
            f"{run_dir}: already supervised by pid {who.pid} on {who.host}, which renewed its lease "
            f"{time_words(round(max(age_s, 0)))} ago; run there: sentinel stop {run_dir}. If that machine is dead, try again in "
            f"{time_words(max(record.lasts_s - age_s, 0))}, "
            "or wait for its lease with --takeover-wait 90s",
            is_elsewhere=True,
        )
    return False


def _read_with_time(run_dir: Path) -> tuple[LeaseRecord, float] | None:
    """The lease, and when its file changed, Unix seconds of the filesystem; None where there is none that can be read."""
    try:
        handle = regular(os.fspath(run_dir / LEASE_NAME), os.O_RDONLY)  # opening makes NFS fetch fresh attributes
    except OSError:
        return None
    try:
        record = parse_lease(os.read(handle, 1 << 16))
        return None if record is None else (record, os.fstat(handle).st_mtime)
    finally:
        os.close(handle)
