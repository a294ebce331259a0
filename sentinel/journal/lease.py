"""Who may write to a run: RUN_DIR/sentinel.lock (an flock, for this machine) and RUN_DIR/lease.json (for all others).

The lock is held while the supervisor lives and dies with it, kill -9 included. The lease names the supervisor to
`sentinel stop`, to the trainer (which commits no checkpoint for an attempt that was superseded) and to supervisors on
machines that the lock does not reach: renewed every 10 s, it is theirs to take 60 s after its last renewal. Neither is
the last word: that is the epoch in the journal, which fences off whoever was taken over without noticing. Whether the supervisor
that it names lives, `holder.py` judges.

    with RunLock.acquire(run_dir) as lock:            # AlreadySupervised when somebody holds the run
        lease = Lease.publish(lock, journal.claim_epoch())
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import open_closed
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.run_layout import LEASE_NAME, LOCK_NAME
from sentinel.client.strict_json import as_float, dumps, loads
from sentinel.clock import boot_s
from sentinel.errors import AlreadySupervised, Fenced, RetryLater, UsageError
from sentinel.journal.identity import ProcessIdentity, is_alive, is_of_this_boot, read_own_identity
from sentinel.model.amounts import time_words
from sentinel.run_files.cluster_job import ClusterJob, read_job

RENEW_EVERY_S = 10.0
STALE_AFTER_S = 60.0
PID_MAX = 2**31
EPOCH_MAX = 2**53  # one higher for each supervisor: no run comes near it, and SQLite holds it
STAMP_CHARS = 16  # of the time of renewal, which is written over in place: the file keeps its length

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """lease.json. `released`: its supervisor left in good order and may be succeeded at once. `renewed_boot_s`: when it was
    renewed last, seconds since its holder's boot; None in a lease of an older version. `launch`: which launch of `attempt` may
    write, by the word in its spec.json; None: whichever. `job`: the scheduler's job that its holder belongs to."""

    epoch: int
    holder: ProcessIdentity
    attempt: int
    released: bool = False
    renewed_boot_s: float | None = field(default=None, compare=False)
    launch: str | None = None
    job: ClusterJob | None = None


class RunLock:
    """The exclusive right to supervise one run directory, held until `release` or the end of the process."""

    def __init__(self, run_dir: Path, handle: int) -> None:
        self.run_dir = run_dir
        self._handle: int | None = handle

    @classmethod
    def acquire(cls, run_dir: Path) -> RunLock:
        """Take the run directory, which must exist, without waiting.

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
            _lock(run_dir, handle)
            _refuse_living_holder(run_dir, handle)
        except BaseException:
            os.close(handle)
            raise
        return cls(run_dir, handle)

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Lease:
    """This supervisor's entry in lease.json, for any thread. It writes no more once released or taken over."""

    def __init__(self, run_dir: Path, record: LeaseRecord) -> None:
        self._run_dir = run_dir
        self._record = record
        self._renewed_s: float | None = None
        self._turn = threading.Lock()  # an action's thread sets the attempt while the loop renews

    @classmethod
    def publish(cls, lock: RunLock, epoch: int, attempt: int | None = None) -> Lease:
        """Write the lease under the run's lock. `epoch` was claimed in the journal before; `attempt` None keeps the last one.

        Raises:
            RetryLater: the file could not be written.
        """
        before, launch = read_lease(lock.run_dir), None
        if attempt is None:
            attempt, launch = (before.attempt, before.launch) if before else (0, None)
        lease = cls(lock.run_dir, LeaseRecord(epoch, read_own_identity(), attempt, launch=launch, job=read_job(os.environ)))
        lease._write()
        return lease

    @property
    def epoch(self) -> int:
        return self._record.epoch

    @property
    def attempt(self) -> int:
        return self._record.attempt

    def set_attempt(self, attempt: int, launch: str | None = None) -> None:
        """Name the attempt that may write from now on, and which launch of that number; trainers of earlier ones, and of another
        launch, commit no more checkpoints.

        Raises:
            Fenced: the lease is lost.
            RetryLater: the file could not be written; the old attempt still stands in it.
        """
        with self._turn:
            self._hold_on()
            if (attempt, launch) != (self._record.attempt, self._record.launch):
                self._write(dataclasses.replace(self._record, attempt=attempt, launch=launch))

    def renew(self, now_s: float) -> None:
        """Show that this supervisor lives; call as often as convenient, it touches the file every 10 s.

        Raises:
            Fenced: the lease is lost.
            RetryLater: the file could not be touched. Another machine may take the run over 60 s after the last renewal.
        """
        with self._turn:
            if self._renewed_s is not None and now_s - self._renewed_s < RENEW_EVERY_S:
                return
            if self._hold_on() != self._record:  # deleted or damaged by somebody: say it again
                self._write()
            else:
                with _retried(self._run_dir):
                    self._stamp()
                    os.utime(self._run_dir / LEASE_NAME)
            self._renewed_s = now_s

    def is_lost(self) -> bool:
        """True when a supervisor with a higher epoch stands in the file."""
        record = read_lease(self._run_dir)
        return record is not None and record.epoch > self._record.epoch

    def release(self) -> None:
        """Leave in good order: a successor, on any machine, need not wait. The attempt stays named."""
        with self._turn:
            if not self.is_lost() and not self._record.released:
                self._write(dataclasses.replace(self._record, released=True))

    def _hold_on(self) -> LeaseRecord | None:
        record = read_lease(self._run_dir)
        if record is not None and record.epoch > self.epoch:
            raise Fenced(f"{self._run_dir}: supervisor epoch {record.epoch} took this run over from epoch {self.epoch}")
        if self._record.released:
            raise Fenced(f"{self._run_dir}: supervisor epoch {self.epoch} has already let this run go")
        return record

    def _write(self, wanted: LeaseRecord | None = None) -> None:
        wanted = self._record if wanted is None else wanted
        with _retried(self._run_dir):
            os.stat(self._run_dir)  # a run directory that is gone (unmounted, deleted) is not made anew
            write_atomically(self._run_dir / LEASE_NAME, _lease_text(wanted))
        self._record = wanted

    def _stamp(self) -> None:
        """The time of renewal, written over in place, which needs no room on a disk that is full. Nothing is lost without it: the
        file's own time is what other machines go by. Never over a successor's lease, which would be another file."""
        with suppress(OSError):
            handle = os.open(self._run_dir / LEASE_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                before, after = os.read(handle, 1 << 16), _lease_text(self._record)
                if _parse(before) == self._record and len(before) == len(after):
                    os.pwrite(handle, after, 0)
            finally:
                os.close(handle)


def _lease_text(record: LeaseRecord) -> bytes:
    plain = {"epoch": record.epoch, **dataclasses.asdict(record.holder), "attempt": record.attempt, "launch": record.launch}
    if record.released:
        plain["released"] = True
    if record.job is not None:
        plain["job"] = dataclasses.asdict(record.job)
    return f'{dumps(plain)[:-1]},"renewed_boot_s":{f"{boot_s():.3f}".ljust(STAMP_CHARS)}}}\n'.encode()


def read_lease(run_dir: Path) -> LeaseRecord | None:
    """What stands in lease.json; None when there is none or it cannot be read as one, which proves nothing about anybody."""
    try:
        return _parse(read_regular(run_dir / LEASE_NAME))
    except OSError:
        return None


@lru_cache(maxsize=1)  # the same text is read twice a second
def _parse(text: bytes) -> LeaseRecord | None:
    try:
        plain = loads(text)
        epoch, pid, attempt = plain["epoch"], plain["pid"], plain.get("attempt") or 0
        host, boot_id = plain["host"], plain["boot_id"]
        since_boot_s, renewed_boot_s = (_seconds(plain.get(name)) for name in ("since_boot_s", "renewed_boot_s"))
        namespace = plain.get("pid_namespace", "")
        who = ProcessIdentity(host, pid, as_float(plain["create_time"]), boot_id, since_boot_s, namespace)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    numbers, words = (epoch, pid, attempt), (host, boot_id, namespace)
    if not all(type(number) is int for number in numbers) or not all(type(word) is str for word in words):
        return None
    released, launch = plain.get("released") is True, plain.get("launch")
    launch = launch if type(launch) is str else None
    if not (0 < pid < PID_MAX and 0 <= epoch < EPOCH_MAX):
        return None
    return LeaseRecord(epoch, who, attempt, released, renewed_boot_s, launch, _job(plain.get("job")))


def _job(plain: object) -> ClusterJob | None:
    """None where none is named, and for what is no job: it proves nothing."""
    match plain:
        case {"id": str(name), "restarts": int(restarts)} if restarts is not True and restarts is not False:
            return ClusterJob(name, restarts)
    return None


def _seconds(value: object) -> float | None:
    """None where an older version wrote none."""
    return None if value is None else as_float(value)


def _lock(run_dir: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
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


def _refuse_living_holder(run_dir: Path, lock_handle: int) -> None:
    """The lock reaches every supervisor of this boot; one elsewhere shows only by a lease that is being renewed."""
    try:
        handle = regular(os.fspath(run_dir / LEASE_NAME), os.O_RDONLY)  # opening makes NFS fetch fresh attributes
    except OSError:
        return
    try:
        record, renewed_s = _parse(os.read(handle, 1 << 16)), os.fstat(handle).st_mtime
    finally:
        os.close(handle)
    if record is None or record.released:
        return
    who = record.holder
    if is_of_this_boot(who):
        if is_alive(who) is True and who.pid != os.getpid():  # it lost its lock file, not its life
            raise AlreadySupervised(f"{run_dir}: already supervised by pid {who.pid}; end it with: sentinel stop {run_dir}")
        return
    own = read_job(os.environ)
    if own is not None and record.job is not None and own.succeeds(record.job):
        return
    os.utime(lock_handle)  # the file server's own clock, the one the lease's time was made with
    age_s = os.fstat(lock_handle).st_mtime - renewed_s
    if age_s < STALE_AFTER_S:
        raise AlreadySupervised(
            f"{run_dir}: already supervised by pid {who.pid} on {who.host}, which renewed its lease "
            f"{time_words(max(age_s, 0))} ago; "
            f"run there: sentinel stop {run_dir}. If that machine is dead, try again in {time_words(STALE_AFTER_S - age_s)}, "
            "or wait for its lease with --takeover-wait 90s",
            is_elsewhere=True,
        )


@contextmanager
def _retried(run_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RetryLater(f"{run_dir / LEASE_NAME}: cannot be written: {error.strerror}", retry_in_s=1.0) from error
