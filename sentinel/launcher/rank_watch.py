"""The ranks of one attempt as the keeper sees them: which process is which rank, and how and when each one ended.

A rank's pid comes from its heartbeat, and is believed only when that process belongs to the attempt. From then on a
pidfd wakes the keeper in the instant the rank dies; the exit value is read from the zombie, before torchrun, which looks
ten times a second, takes it away. A rank has failed when it died by a signal or with a code other than 0 and 6, or when
its own record says so. This file does not kill and does not decide when the attempt ends.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from sentinel.client.strict_json import as_float
from sentinel.launcher.exit_report import ORDERLY_EXITS, describe_exit, read_code, read_object, read_pid
from sentinel.launcher.process_tree import read_process
from sentinel.launcher.rank_names import is_rank_by_another_name, local_world_size
from sentinel.launcher.spare_records import read_spare_records
from sentinel.launcher.torchrun_word import TorchrunWord, find_workers
from sentinel.run_files.attempt_files import AttemptFiles, is_own_name, is_this_host, rank_files

NOTICE_S = 2.0  # how late a death may be noticed (two cores at load 6: 0.1 s was seen)
_WAITED_MAX = 1024  # a run of months re-parents many a helper process


def _leave_alone(handle: int) -> None:
    """For a caller that polls nothing."""


class RankWatch:
    """Fed by the keeper's loop: `look` for new files, `note_gone` for a ready pidfd, `note_reaped` for a waited child.

    Args:
        belongs: whether a pid is a process of this attempt, dead but not yet waited for included.
        on_new: called with the pidfd of each rank found, for the caller's poll.
        on_left: called with the pidfd of a process that turned out to be no rank, before it is closed.
    """

    def __init__(
        self,
        files: AttemptFiles,
        belongs: Callable[[int], bool],
        on_new: Callable[[int], None],
        on_left: Callable[[int], None] = _leave_alone,
    ) -> None:
        self._files = files
        self._belongs = belongs
        self._on_new = on_new
        self._on_left = on_left
        self._started: set[int] = set()  # ranks whose process the caller itself has started: it may be a launcher of ranks
        self._handles: dict[int, tuple[int, int]] = {}  # pidfd → rank, pid
        self._unread_beats: set[int] = set()
        self._expected = 1  # ranks on this machine, as torchrun and its like tell each of them
        self._silent_workers: set[int] = set()  # of a torchrun, without a heartbeat by now
        self._missing: set[int] = set()  # their pid was gone when their first heartbeat was read
        self._failed_at: dict[int, float] = {}
        self.ranks: set[int] = set()  # every rank that ever showed a heartbeat
        self.pids: dict[int, int] = {}  # rank → pid, while and after it lived here
        self.records: dict[int, Mapping[str, Any]] = {}
        self.reaped: dict[int, int] = {}  # rank → exit value; of a worker without a heartbeat as well
        self._torchrun = TorchrunWord()
        self._waited: dict[int, int] = {}  # pid → exit value of the keeper's own last children

    def poll(self) -> None:
        """Read heartbeats of ranks not known yet, and exit records not read yet. OSError is swallowed: next time."""
        try:
            beats, exits = rank_files(self._files.heartbeats), rank_files(self._files.exits)
            for rank in sorted((set(beats) - self.ranks) | (self._unread_beats & set(beats))):
                self.ranks.add(rank)
                self._read_beat(rank, beats[rank].path)
            for rank in sorted(self._started & set(beats)):
                self._read_again(rank, beats[rank].path)
            for rank in sorted(set(exits) - set(self.records)):
                self._take_record(rank, read_object(exits[rank].path))
        except OSError:  # a shared filesystem may answer next time; deaths of children are still seen without it
            self._read_spare_records()
            return
        self._read_spare_records()
        with suppress(OSError):
            self._judge_missing()

    def _read_spare_records(self) -> None:
        for rank, record in read_spare_records(self._files).items():
            if rank not in self.records:
                self._take_record(rank, record)

    def _read_beat(self, rank: int, path: str) -> None:
        beat = read_object(path)
        pid = None if beat is None else read_pid(beat)
        if rank in self._silent_workers:
            self._silent_workers.discard(rank)
            if self.pids[rank] == pid:
                return
            self._forget(rank)  # the worker only wraps the rank, which may even live in a container
        if beat is None or pid is None:
            self._unread_beats.add(rank)
            return
        self._unread_beats.discard(rank)
        if not is_this_host(beat.get("host")) and not self._is_here(rank, beat.get("host"), pid, self._waited):
            return  # a rank on another machine: its end shows in its record only
        if pid in self._waited:  # it beat and died between two looks
            self.pids[rank] = pid
            self._note_exit(rank, self._waited[pid])
            return
        if not self._belongs(pid):
            if read_process(pid) is None:
                self._missing.add(rank)
            return
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._missing.add(rank)
            return
        self.pids[rank] = pid
        self._expected = max(self._expected, local_world_size(pid))
        self._handles[handle] = (rank, pid)
        self._on_new(handle)
        process = read_process(pid)
        if process is None:
            return
        if process.parent == os.getpid():
            self._started.add(rank)
            self._torchrun.note_rank(rank, pid, process.parent)
        elif self._torchrun.note_rank(rank, pid, process.parent):
            self._watch_workers(process.parent)

    def _watch_workers(self, torchrun: int) -> None:
        """The other workers of a torchrun: the trainer under a profile has one rank with a heartbeat, and dies of any of them."""
        for rank, pid in find_workers(torchrun).items():
            if rank not in self.ranks and rank not in self.pids and (handle := self._open(pid)) is not None:
                self._silent_workers.add(rank)
                self.pids[rank] = pid
                self._handles[handle] = (rank, pid)
                self._on_new(handle)
                self._torchrun.note_rank(rank, pid, torchrun)

    def _open(self, pid: int) -> int | None:
        """A handle of a process of the attempt."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if self._belongs(pid):
            return handle
        os.close(handle)
        return None

    def _forget(self, rank: int) -> None:
        """What was watched in place of the rank was another process."""
        self._leave(rank)
        del self.pids[rank]
        self.reaped.pop(rank, None)
        self._failed_at.pop(rank, None)

    def _leave(self, rank: int) -> None:
        for handle in [handle for handle, (known, _) in self._handles.items() if known == rank]:
            del self._handles[handle]
            self._on_left(handle)
            os.close(handle)

    def _is_here(self, rank: int, host: object, pid: int, ended: Collection[int]) -> bool:
        if pid in ended and is_own_name(host):
            return True
        return self._belongs(pid) and (is_this_host(host) or is_rank_by_another_name(rank, host, pid))

    def _read_again(self, rank: int, path: str) -> None:
        """What was started was taken for the rank before it had started one (torchrun, under a profile): the rank is below it."""
        beat = read_object(path)
        pid = None if beat is None else read_pid(beat)
        if beat is None or pid is None or pid == self.pids[rank] or not self._is_here(rank, beat.get("host"), pid, ()):
            return
        self._leave(rank)
        self._started.discard(rank)
        self._read_beat(rank, path)

    def _judge_missing(self) -> None:
        """Ranks that were dead when their first heartbeat was read have failed, unless their record says otherwise.

        Only once some rank was found by its pid: before that, the pids may be those of a container's own count.
        """
        if self.pids:
            for rank in sorted(self._missing - set(self.records)):
                self._note_failed(rank, time.time())
            self._missing.clear()

    def _take_record(self, rank: int, record: Mapping[str, Any] | None) -> None:
        if record is None:
            return
        self.records[rank] = record
        if read_code(record) not in (*ORDERLY_EXITS, None):
            self._note_failed(rank, _time_of(record))

    def is_handle(self, handle: int) -> bool:
        return handle in self._handles

    def note_gone(self, handle: int) -> None:
        """The pidfd says that this rank has ended: take its exit value from the zombie, if it is still there.

        Call `look` first. A rank whose value nobody saw and that left no record has failed too, unless it is the only
        one: then the command above it is about to end and says more. Of a worker without a heartbeat that says nothing.
        """
        rank, pid = self._handles.pop(handle)
        zombie = read_process(pid)
        os.close(handle)
        if zombie is not None and zombie.ended is not None:
            self._note_exit(rank, zombie.ended)
        elif rank in self.ranks and rank not in self.records and rank not in self.reaped and len(self.ranks) > 1:
            self._note_failed(rank, time.time())

    def note_reaped(self, pid: int, value: int) -> None:
        """The keeper itself has waited for this pid: one of its children, or a re-parented orphan."""
        while len(self._waited) >= _WAITED_MAX:
            del self._waited[next(iter(self._waited))]
        self._waited[pid] = value
        self._torchrun.note_ended(pid, value)
        for rank, known in self.pids.items():
            if known == pid and rank not in self.reaped:
                self._note_exit(rank, value)

    @property
    def vouched(self) -> set[int]:
        """Ranks that nobody here saw end, and whose torchrun ended with 0."""
        gone = self.ranks - {rank for rank, _ in self._handles.values()}
        return {rank for rank in gone - set(self.reaped) - set(self.records) if self._torchrun.vouches_for(rank)}

    def is_word_due(self) -> bool:
        """Whether a rank's end is known to nobody here, and the torchrun that started it has not ended yet: it will say."""
        return self._torchrun.is_due(self._silent(set(self._failed_at)))

    def _note_exit(self, rank: int, value: int) -> None:
        self.reaped[rank] = value
        if value not in ORDERLY_EXITS and rank not in self.records:
            self._note_failed(rank, time.time())

    def _note_failed(self, rank: int, at_s: float) -> None:
        self._failed_at[rank] = min(at_s, self._failed_at.get(rank, math.inf))

    def lost(self) -> str | None:
        """Why the attempt cannot go on, as a sentence; None while no rank is known to have failed."""
        failed = self.failed_order()
        if not failed:
            return None
        rank = failed[0]
        code = read_code(self.records.get(rank, {}))
        value = self.reaped.get(rank) if code is None else code
        if value is None:
            return f"rank {rank} is gone and left no record"
        return f"rank {rank} {describe_exit(value)}"

    def failed_order(self) -> tuple[int, ...]:
        """The failed ranks, first failure first.

        A death by signal leaves no record of its own time, only the moment it was noticed, which on a busy machine is after
        its peers, whose connections broke, wrote records of theirs. So it counts as that much earlier.
        """

        def when(rank: int) -> tuple[float, int]:
            by_signal = rank not in self.records and self.reaped.get(rank, 0) not in (0, -signal.SIGTERM)
            return self._failed_at[rank] - (NOTICE_S if by_signal else 0.0), rank

        return tuple(sorted(set(self._failed_at) - self.vouched, key=when))

    def are_all_gone(self) -> bool:
        """Whether every rank ever seen living here has ended; False while none was seen."""
        return bool(self.pids) and not self._handles

    def are_all_ends_known(self) -> bool:
        """Whether every rank of this machine was seen and has ended in a way that is known: nothing is left to learn."""
        return len(self.pids) >= self._expected and self.are_all_gone() and not self._silent(set(self.pids))

    def needs_table(self) -> bool:
        """Whether a rank has failed in a way only its launcher can tell, or may have: one of this machine was never seen, or is
        gone and nobody saw how."""
        gone = set(self.pids) - {rank for rank, _ in self._handles.values()}
        return bool(self._silent(gone | set(self._failed_at))) or 0 < len(self.pids) < self._expected

    def _silent(self, ranks: set[int]) -> set[int]:
        return ranks - set(self.reaped) - set(self.records) - self.vouched


def _time_of(record: Mapping[str, Any]) -> float:
    """When the rank wrote its record, never later than now (clocks of machines differ)."""
    try:
        return min(as_float(record.get("time_s")), time.time())
    except ValueError:
        return time.time()
