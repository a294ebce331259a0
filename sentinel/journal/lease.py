"""Who may write to a run, for other machines: RUN_DIR/lease.json. On one machine the lock tells (`run_lock.py`).

The lease names the supervisor to `sentinel stop`, to the trainer (which commits no checkpoint for an attempt that was
superseded) and to supervisors on machines that the lock does not reach. Of its length, 60 s unless `--lease` says otherwise: it
is renewed every sixth of it, and is another's to take when that has passed without a renewal. Its holder fences itself earlier,
after three quarters: then it acts no more until it has taken the run anew. Neither lock nor lease is the last word: that is the
epoch in the journal, which fences off whoever was taken over without noticing. Whether the supervisor that it names lives,
`holder.py` judges; how long it has not changed, `lease_watch.py` counts.

    with RunLock.acquire(run_dir) as lock:            # AlreadySupervised when somebody holds the run
        lease = Lease.publish(lock, journal.claim_epoch())
    ...
    lease.hold()                                      # before each act
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import LEASE_NAME
from sentinel.client.strict_json import as_float, dumps, loads
from sentinel.clock import boot_s
from sentinel.errors import Fenced, LeaseOverdue, RetryLater
from sentinel.journal.identity import ProcessIdentity, read_own_identity
from sentinel.model.amounts import time_words
from sentinel.run_files.cluster_job import ClusterJob, read_job

STALE_AFTER_S = 60.0  # the usual length
LENGTH_MIN_S, LENGTH_MAX_S = 3.0, 3600.0  # below, a busy disk is taken for a dead machine
RENEWALS = 6  # in the length of a lease
ACTS_FOR_RATIO = 0.75  # of its length: the rest is for clocks that run at different speeds and for an act that has just begun
PID_MAX = 2**31
EPOCH_MAX = 2**53  # one higher for each supervisor: no run comes near it, and SQLite holds it
STAMP_CHARS = 16  # of the time of renewal, which is written over in place: the file keeps its length


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """lease.json. `released`: its supervisor left in good order and may be succeeded at once. `renewed_boot_s`: when it was
    renewed last, seconds since its holder's boot; None in a lease of an older version. `launch`: which launch of `attempt` may
    write, by the word in its spec.json; None: whichever. `job`: the scheduler's job that its holder belongs to. `lasts_s`:
    without a renewal."""

    epoch: int
    holder: ProcessIdentity
    attempt: int
    released: bool = False
    renewed_boot_s: float | None = field(default=None, compare=False)
    launch: str | None = None
    job: ClusterJob | None = None
    lasts_s: float = STALE_AFTER_S

    @property
    def renew_every_s(self) -> float:
        return self.lasts_s / RENEWALS


class HeldRun(Protocol):
    """The run's lock (`run_lock.RunLock`), which whoever publishes a lease holds."""

    @property
    def run_dir(self) -> Path: ...


class Lease:
    """This supervisor's entry in lease.json, for any thread. It writes no more once released, taken over or overdue. `now`: a
    clock that nobody sets, and that goes on while this machine sleeps."""

    def __init__(self, run_dir: Path, record: LeaseRecord, now: Callable[[], float] = boot_s) -> None:
        self._run_dir = run_dir
        self._record = record
        self._renewed_s: float | None = None
        self._now = now
        self._held_s = now()  # when the last renewal began that succeeded, or this one was made
        self._turn = threading.Lock()  # an action's thread sets the attempt while the loop renews

    @classmethod
    def publish(
        cls,
        lock: HeldRun,
        epoch: int,
        attempt: int | None = None,
        lasts_s: float = STALE_AFTER_S,
        now: Callable[[], float] = boot_s,
    ) -> Lease:
        """Write the lease under the run's lock. `epoch` was claimed in the journal before; `attempt` None keeps the last one.

        Raises:
            RetryLater: the file could not be written.
        """
        before, launch = read_lease(lock.run_dir), None
        if attempt is None:
            attempt, launch = (before.attempt, before.launch) if before else (0, None)
        who, job = read_own_identity(), read_job(os.environ)
        lease = cls(lock.run_dir, LeaseRecord(epoch, who, attempt, launch=launch, job=job, lasts_s=lasts_s), now)
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
            LeaseOverdue: it could not be renewed in time.
            RetryLater: the file could not be written; the old attempt still stands in it.
        """
        with self._turn:
            self._refuse_overdue()
            self._hold_on()
            if (attempt, launch) != (self._record.attempt, self._record.launch):
                self._write(dataclasses.replace(self._record, attempt=attempt, launch=launch))

    def hold(self) -> None:
        """Before each act, as close to it as can be: a process that was stopped goes on where it stood.

        Raises:
            Fenced: a supervisor with a higher epoch stands in the file, or this one has let the run go.
            LeaseOverdue: it could not be renewed in time, so another may be about to take the run.
        """
        with self._turn:
            self._refuse_overdue()
            self._hold_on()

    def renew(self, now_s: float) -> None:
        """Show that this supervisor lives; call as often as convenient, it touches the file every sixth of its length.

        Raises:
            Fenced: the lease is lost.
            LeaseOverdue: the last renewal is too long ago. It is not made up for: whoever took the run meanwhile may not have
                written so yet. The run is to be taken anew, which the journal decides.
            RetryLater: the file could not be touched.
        """
        with self._turn:
            self._refuse_overdue()
            if self._renewed_s is not None and now_s - self._renewed_s < self._record.renew_every_s:
                return
            began_s = self._now()
            if self._hold_on() != self._record:  # deleted or damaged by somebody: say it again
                self._write()
            else:
                with _retried(self._run_dir):
                    self._stamp()
                    os.utime(self._run_dir / LEASE_NAME)
            self._renewed_s, self._held_s = now_s, began_s

    def is_lost(self) -> bool:
        """True when a supervisor with a higher epoch stands in the file."""
        record = read_lease(self._run_dir)
        return record is not None and record.epoch > self._record.epoch

    def release(self) -> None:
        """Leave in good order: a successor, on any machine, need not wait. The attempt stays named."""
        with self._turn:
            if not (self.is_lost() or self._record.released or self._overdue_s() > 0.0):
                self._write(dataclasses.replace(self._record, released=True))

    def _overdue_s(self) -> float:
        """For how long it may not act any more; negative: not yet."""
        return self._now() - self._held_s - ACTS_FOR_RATIO * self._record.lasts_s

    def _refuse_overdue(self) -> None:
        if self._overdue_s() > 0.0:
            raise LeaseOverdue(
                f"{self._run_dir / LEASE_NAME}: was not renewed for {time_words(self._now() - self._held_s)}, and is another's "
                f"to take after {time_words(self._record.lasts_s)}: supervisor epoch {self.epoch} acts no more before it has "
                "taken the run anew"
            )

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
                if parse_lease(before) == self._record and len(before) == len(after):
                    os.pwrite(handle, after, 0)
            finally:
                os.close(handle)


def _lease_text(record: LeaseRecord) -> bytes:
    plain = {"epoch": record.epoch, **dataclasses.asdict(record.holder), "attempt": record.attempt, "launch": record.launch}
    if record.released:
        plain["released"] = True
    if record.job is not None:
        plain["job"] = dataclasses.asdict(record.job)
    if record.lasts_s != STALE_AFTER_S:
        plain["lasts_s"] = record.lasts_s
    return f'{dumps(plain)[:-1]},"renewed_boot_s":{f"{boot_s():.3f}".ljust(STAMP_CHARS)}}}\n'.encode()


def read_lease(run_dir: Path) -> LeaseRecord | None:
    """What stands in lease.json; None when there is none or it cannot be read as one, which proves nothing about anybody."""
    try:
        return parse_lease(read_regular(run_dir / LEASE_NAME))
    except OSError:
        return None


@lru_cache(maxsize=1)  # the same text is read twice a second
def parse_lease(text: bytes) -> LeaseRecord | None:
    try:
        plain = loads(text)
        epoch, pid, attempt = plain["epoch"], plain["pid"], plain.get("attempt") or 0
        host, boot_id = plain["host"], plain["boot_id"]
        since_boot_s, renewed_boot_s = (_seconds(plain.get(name)) for name in ("since_boot_s", "renewed_boot_s"))
        namespace = plain.get("pid_namespace", "")
        who = ProcessIdentity(host, pid, as_float(plain["create_time"]), boot_id, since_boot_s, namespace)
        lasts_s = min(max(as_float(plain.get("lasts_s", STALE_AFTER_S)), LENGTH_MIN_S), LENGTH_MAX_S)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    numbers, words = (epoch, pid, attempt), (host, boot_id, namespace)
    if not all(type(number) is int for number in numbers) or not all(type(word) is str for word in words):
        return None
    released, launch = plain.get("released") is True, plain.get("launch")
    launch = launch if type(launch) is str else None
    if not (0 < pid < PID_MAX and 0 <= epoch < EPOCH_MAX):
        return None
    return LeaseRecord(epoch, who, attempt, released, renewed_boot_s, launch, _job(plain.get("job")), lasts_s)


def _job(plain: object) -> ClusterJob | None:
    """None where none is named, and for what is no job: it proves nothing."""
    match plain:
        case {"id": str(name), "restarts": int(restarts)} if restarts is not True and restarts is not False:
            return ClusterJob(name, restarts)
    return None


def _seconds(value: object) -> float | None:
    """None where an older version wrote none."""
    return None if value is None else as_float(value)


@contextmanager
def _retried(run_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RetryLater(f"{run_dir / LEASE_NAME}: cannot be written: {error.strerror}", retry_in_s=1.0) from error
