"""What silent ranks are doing, for whoever judges a hang: looked at while a hang is only suspected, before anything is killed.

A rank is looked at when it is silent (`silence`). Its kernel state is read every second. Its Python stack is asked for once in a
silence, where its heartbeat says by which signal (`stack_signal`, see client/stacks.py), else by py-spy if there is one
(launcher/py_spy.py). Where all ranks are silent, those that have a flight recorder are asked for a dump of it. Only ranks of this
machine can be looked at. Of others is reported what they dump, and what their stacks say, which they write by themselves where
their heartbeat says so (`stack_after_s`). One whose stack is overdue by `MUTE_AFTER_S` is told as mute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.flight_pipe import PIPE_VARIABLES, ask_for_dump
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import flight_recorder_pipe_prefix, flight_recorder_prefix, rank_file, stack_path
from sentinel.launcher.process_tree import read_environment
from sentinel.launcher.py_spy import StackDump, start_dump
from sentinel.launcher.rank_processes import Frame, ask_for_stack, judge_stack, read_stack, read_state
from sentinel.model.collectives import Collective
from sentinel.model.readings import Doing, FlightRecords, Reading, SilentRank
from sentinel.run_files.attempt_files import AttemptFiles, is_this_host
from sentinel.telemetry.flight_recorder import PREFIX_VARIABLES, find_dumps, read_dumps
from sentinel.telemetry.heartbeats import RankLife
from sentinel.telemetry.silence import Silence

LOOK_EVERY_S = 1.0
RANKS_MAX = 64  # of one machine
SPIES_MAX = 16  # py-spy processes at once, of ranks that offer no stack
MUTE_AFTER_S = 10.0  # far above what a stack takes on a busy machine, and its file through a shared filesystem's cache
DUMPS_AT_ONCE = 16  # a look may not hold up the loop: a dump of a megabyte takes a twentieth of a second


@dataclass(slots=True)
class _RankLook:
    """At one rank in one silence, which began with the heartbeat read at `since_s`. `is_blocked`: it was so at the last look,
    which may be a moment of a healthy read."""

    since_s: float
    reported: tuple[Doing, str] | None = None
    is_blocked: bool = False
    asked_from: int | None = None  # bytes of its file before it was asked; None: not asked yet
    due_s: float | None = None  # when its stack was asked for, or should have come by itself
    reads: int = 0
    dump: StackDump | None = None
    stack: tuple[Doing, str] | None = None

    def is_mute(self, now_s: float) -> bool:
        return self.due_s is not None and now_s - self.due_s > MUTE_AFTER_S


@dataclass(slots=True)
class SilentRanks:
    """Of one attempt."""

    run_dir: Path
    attempt: int
    _looks: dict[int, _RankLook] = field(default_factory=dict)
    _looked_s: float = float("-inf")
    _silence: Silence = field(default_factory=Silence)
    _silent_since_s: float | None = None  # by the clock of files, since when dumps are of this silence
    _dumps_read: dict[Path, tuple[int, int]] = field(default_factory=dict)  # with what they looked like
    _dumps: dict[int, Sequence[Collective]] = field(default_factory=dict)

    def poll(self, now_s: float, lives: dict[int, RankLife]) -> list[Reading]:
        """What is new of the ranks that are silent."""
        self._silence.note(now_s, lives)
        if now_s - self._looked_s < LOOK_EVERY_S:
            return []
        silent = self._silence.ranks(now_s, lives)
        self._forget({r for r, look in self._looks.items() if r not in silent or look.since_s != lives[r].changed_s})
        if not silent:
            self._silent_since_s, self._dumps_read, self._dumps = None, {}, {}
            return []
        self._looked_s = now_s
        out: list[Reading] = []
        marks = AttemptFiles.of(self.run_dir, self.attempt).environment
        here = sorted(rank for rank in silent if is_this_host(lives[rank].host or None))[:RANKS_MAX]
        for rank in here:
            look = self._looks.setdefault(rank, _RankLook(lives[rank].changed_s))
            seen = self._look_at(rank, lives[rank], look, marks, now_s)
            out += self._report(rank, look, seen)
        for rank in self._elsewhere(silent, here, lives, now_s):
            out += self._report(rank, self._looks[rank], self._read_own_stack(rank, self._looks[rank], now_s))
        known = here or sorted(silent)[:RANKS_MAX]
        return [*out, *self._look_at_dumps([lives[rank].pid for rank in here], known, len(silent) == len(lives))]

    def _report(self, rank: int, look: _RankLook, seen: tuple[Doing, str] | None) -> list[Reading]:
        if seen is None or seen == look.reported:
            return []
        look.reported = seen
        return [SilentRank(self.attempt, rank, doing=seen[0], where=seen[1])]

    def _elsewhere(self, silent: list[int], here: list[int], lives: dict[int, RankLife], now_s: float) -> list[int]:
        """Those on other machines whose stack is due and was not read: so many at once, the ones read least often first."""
        due: list[int] = []
        for rank in set(silent).difference(here):
            life = lives[rank]
            if life.stack_after_s is None or is_this_host(life.host or None) or now_s < life.changed_s + life.stack_after_s:
                continue
            look = self._looks.setdefault(rank, _RankLook(life.changed_s, due_s=life.changed_s + life.stack_after_s))
            if look.stack is None:
                due.append(rank)
        return sorted(due, key=lambda rank: (self._looks[rank].reads, rank))[:RANKS_MAX]

    def _read_own_stack(self, rank: int, look: _RankLook, now_s: float) -> tuple[Doing, str] | None:
        """What a rank wrote behind its last heartbeat. Its machine wrote both files, so that their times can be compared."""
        look.reads += 1
        path = stack_path(self.run_dir, self.attempt, rank)
        stack = read_stack(path) if _changed_s(path) >= self._beaten_s(rank) > 0.0 else ()
        look.stack = judge_stack(stack) if stack else None
        return look.stack if look.stack is not None else ("mute", "") if look.is_mute(now_s) else None

    def _look_at_dumps(self, pids: list[int | None], ranks: list[int], all_silent: bool) -> list[Reading]:
        """Ask each rank for a dump once in a silence, and read what was dumped in it. Only where every rank is silent: a dump of
        a run that goes on says nothing."""
        if not all_silent:
            return []
        prefixes, pipes = self._places(pids)
        if self._silent_since_s is None:
            self._silent_since_s = max((self._beaten_s(rank) for rank in ranks), default=0.0)
            for pipe in pipes:
                for rank in ranks:
                    ask_for_dump(pipe, rank)
        found = {path: _mark(path) for prefix in prefixes for path in find_dumps(prefix, self._silent_since_s)}
        unread = sorted(path for path, mark in found.items() if self._dumps_read.get(path) != mark)
        if not unread:
            return []
        for path in unread[:DUMPS_AT_ONCE]:
            self._dumps_read[path] = found[path]
            self._dumps |= read_dumps([path])
        return [FlightRecords(self.attempt, dict(self._dumps))] if len(unread) <= DUMPS_AT_ONCE and self._dumps else []

    def _beaten_s(self, rank: int) -> float:
        """When a rank's heartbeat was written, by the clock of files: what is dumped later belongs to this silence."""
        return _changed_s(rank_file(AttemptFiles.of(self.run_dir, self.attempt).heartbeats, rank))

    def _places(self, pids: list[int | None]) -> tuple[set[str], set[str]]:
        """The prefixes of dumps and of pipes: our own, and what the processes were started with."""
        prefixes = {str(flight_recorder_prefix(self.run_dir, self.attempt))}
        pipes = {str(flight_recorder_pipe_prefix(self.run_dir, self.attempt))}
        for pid in pids[:1]:
            for entry in read_environment(pid) if pid is not None else ():
                name, _, value = os.fsdecode(entry).partition("=")
                if value and name in PREFIX_VARIABLES:
                    prefixes.add(value)
                elif value and name in PIPE_VARIABLES:
                    pipes.add(value)
        return prefixes, pipes

    def close(self) -> None:
        self._forget(set(self._looks))

    def _forget(self, ranks: set[int]) -> None:
        for rank in ranks:
            if (dump := self._looks.pop(rank).dump) is not None:
                dump.close()

    def _look_at(
        self, rank: int, life: RankLife, look: _RankLook, marks: dict[str, str], now_s: float
    ) -> tuple[Doing, str] | None:
        state = read_state(life.pid, marks) if life.pid is not None else None
        if state is None or life.pid is None:
            return None
        doing, where = state
        was_blocked, look.is_blocked = look.is_blocked, doing == "blocked"
        if doing == "stopped" or (doing == "blocked" and was_blocked):
            return state
        path = stack_path(self.run_dir, self.attempt, rank)
        if look.asked_from is None:
            look.asked_from = -1
            size = _mark(path)[1]
            if life.stack_signal is not None and ask_for_stack(life.pid, life.stack_signal, marks):
                look.asked_from, look.due_s = size, now_s
            elif sum(other.dump is not None for other in self._looks.values()) < SPIES_MAX:
                look.dump = start_dump(life.pid, path.with_suffix(".py-spy.json"), marks, now_s)
        elif look.stack is None:
            stack = read_stack(path, look.asked_from) if look.asked_from >= 0 else _take(look, now_s)
            look.stack = judge_stack(stack) if stack else None
        if look.stack is not None:
            return look.stack
        return ("mute" if look.is_mute(now_s) else "runs", where)


def _take(look: _RankLook, now_s: float) -> tuple[Frame, ...]:
    stack = look.dump.read(now_s) if look.dump is not None else ()
    look.dump = look.dump if stack is None else None
    return stack or ()


def _mark(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _changed_s(path: Path) -> float:
    """By the clock of files; 0.0 where it cannot be told. Opening makes NFS fetch fresh attributes."""
    try:
        with open(path, "rb", opener=regular) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0
