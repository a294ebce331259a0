"""How long the lease of another supervisor has not changed, counted by whoever waits for it.

A clock of another machine says nothing here, nor does the time of a file, which some filesystems take from the clock of the
machine that writes. What counts is that the text changes while its holder renews it, and the own clock between two looks that
found the same. A stretch without a look is left out: this process, or its way to the file, may have stood still as well.

    watch = LeaseWatch(run_dir)
    watch.look()            # every two seconds
    watch.has_run_out       # the whole length of the lease without a change
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import LEASE_NAME
from sentinel.clock import boot_s
from sentinel.journal.lease import LeaseRecord, parse_lease

GAP_S = 10.0  # between two looks: whoever looks later than that stood still himself


class LeaseWatch:
    """Of one run. `now`: seconds of a clock that nobody sets. `trusts_times`: the time of the file counts as well, by the clock
    of its filesystem, so that a lease that is old already is not waited for again.

    Attributes:
        record: what the last look found; None where there is no lease, or none that can be read.
        silent_s: for how long looks have found the same.
    """

    def __init__(self, run_dir: Path, now: Callable[[], float] = boot_s, *, trusts_times: bool = False) -> None:
        self._path, self._now, self.trusts_times = run_dir / LEASE_NAME, now, trusts_times
        self._seen: tuple[bytes, int] | None = None
        self._looked_s: float | None = None
        self._claimed = 0
        self.record: LeaseRecord | None = None
        self.silent_s = 0.0

    def look(self) -> None:
        """Once more. A lease that cannot be read begins the count anew: nobody knows whether it changed."""
        now_s, seen = self._now(), self._read()
        if seen is None or seen != self._seen:
            self.silent_s, self._seen = 0.0, seen
            self.record = None if seen is None else parse_lease(seen[0])
        elif self._looked_s is not None and 0.0 <= now_s - self._looked_s <= GAP_S:
            self.silent_s += now_s - self._looked_s
        self._looked_s = now_s

    @property
    def has_run_out(self) -> bool:
        return self.record is not None and self.silent_s >= self.record.lasts_s

    @property
    def epoch(self) -> int:
        """Of the supervisor whose lease is watched, or of one that claimed a higher one and never came to write its lease."""
        return max(self._claimed, 0 if self.record is None else self.record.epoch)

    def covers_now(self) -> bool:
        """Whether it has run out, and still stands there as it did. Asked under the lock, right before the run is taken."""
        return self.has_run_out and self._read() == self._seen

    def note_claim(self, epoch: int) -> None:
        """Somebody else has claimed this epoch. His lease is waited for as long as one lasts."""
        self._claimed, self.silent_s = max(self._claimed, epoch), 0.0

    def _read(self) -> tuple[bytes, int] | None:
        """The text, and the time of the file in ns: on a disk that takes no write in place a renewal moves that alone."""
        try:
            handle = regular(os.fspath(self._path), os.O_RDONLY)  # opening makes NFS fetch what is there now
        except OSError:
            return None
        try:
            return os.read(handle, 1 << 16), os.fstat(handle).st_mtime_ns
        except OSError:
            return None
        finally:
            os.close(handle)
