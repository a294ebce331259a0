"""What silent ranks are doing, for whoever judges a hang: looked at while a hang is only suspected, before anything is killed.

A rank is looked at when it is silent (`silence`), every second (`rank_look`). Where all ranks are silent, those that have a
flight recorder are asked for a dump of it. Ranks of this machine are looked at here, others by the agent of their node where
there is one (`agents`). Of the rest is reported what they dump, and what their stacks say, which they write by themselves where
their heartbeat says so (`stack_after_s`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.flight_pipe import ask_for_dump
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import rank_file, stack_path
from sentinel.launcher.rank_processes import judge_stack, read_stack
from sentinel.model.collectives import Collective
from sentinel.model.readings import Doing, FlightRecords, Reading, SilentRank
from sentinel.run_files.attempt_files import AttemptFiles, is_this_host
from sentinel.telemetry.agents import Agents
from sentinel.telemetry.flight_recorder import find_dumps, read_dumps
from sentinel.telemetry.heartbeats import RankLife
from sentinel.telemetry.rank_look import SPIES_MAX, RankLook, dump_places, mark_of
from sentinel.telemetry.silence import Silence

LOOK_EVERY_S = 1.0
RANKS_MAX = 64  # of one machine
DUMPS_AT_ONCE = 16  # a look may not hold up the loop: a dump of a megabyte takes a twentieth of a second


@dataclass(slots=True)
class SilentRanks:
    """Of one attempt."""

    run_dir: Path
    attempt: int
    _looks: dict[int, RankLook] = field(default_factory=dict)
    _looked_s: float = float("-inf")
    _silence: Silence = field(default_factory=Silence)
    _silent_since_s: float | None = None  # by the clock of files, since when dumps are of this silence
    _dumps_read: dict[Path, tuple[int, int]] = field(default_factory=dict)  # with what they looked like
    _dumps: dict[int, Sequence[Collective]] = field(default_factory=dict)

    def poll(self, now_s: float, lives: dict[int, RankLife], agents: Agents | None = None) -> list[Reading]:
        """What is new of the ranks that are silent. `agents`: of other nodes."""
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
        files = AttemptFiles.of(self.run_dir, self.attempt)
        here = sorted(rank for rank in silent if is_this_host(lives[rank].host or None))[:RANKS_MAX]
        for rank in here:
            look = self._looks.setdefault(rank, RankLook(lives[rank].changed_s))
            out += self._report(rank, look, self._look_at(rank, lives[rank], look, files, now_s))
        away = sorted(rank for rank in silent if not is_this_host(lives[rank].host or None))
        sights = {} if agents is None else {rank: seen for rank in away if (seen := agents.sight(rank, now_s)) is not None}
        for rank, seen in sights.items():
            out += self._report(rank, self._looks.setdefault(rank, RankLook(lives[rank].changed_s)), seen)
        all_silent = len(silent) == len(lives)
        if agents is not None:
            self._ask_agents([*sights], lives, agents, all_silent)
        for rank in self._with_own_stacks([rank for rank in away if rank not in sights], lives, now_s):
            out += self._report(rank, self._looks[rank], self._read_own_stack(rank, self._looks[rank], now_s))
        ranks = here or away[:RANKS_MAX]
        return [*out, *self._look_at_dumps([lives[rank].pid for rank in here], ranks, all_silent)]

    def _report(self, rank: int, look: RankLook, seen: tuple[Doing, str] | None) -> list[Reading]:
        if seen is None or seen == look.reported:
            return []
        look.reported = seen
        return [SilentRank(self.attempt, rank, doing=seen[0], where=seen[1])]

    def _ask_agents(self, ranks: Sequence[int], lives: Mapping[int, RankLife], agents: Agents, all_silent: bool) -> None:
        """To look closer at these ranks of their nodes, once in a silence."""
        unasked = [rank for rank in ranks if self._looks[rank].asked_from is None]
        if not unasked:
            return
        newest = max((lives[rank] for rank in unasked), key=lambda life: life.time_s)
        with suppress(OSError):  # a full disk: the next look asks
            agents.ask_for_stacks(self.attempt, unasked, newest, with_dumps=all_silent)
            for rank in unasked:
                self._looks[rank].asked_from = -1

    def _with_own_stacks(self, ranks: Sequence[int], lives: Mapping[int, RankLife], now_s: float) -> list[int]:
        """Those whose stack is due by itself and was not read: so many at once, the ones read least often first."""
        due: list[int] = []
        for rank in ranks:
            life = lives[rank]
            if life.stack_after_s is None or now_s < life.changed_s + life.stack_after_s:
                continue
            look = self._looks.setdefault(rank, RankLook(life.changed_s))
            if look.due_s is None:
                look.due_s = life.changed_s + life.stack_after_s
            if look.stack is None:
                due.append(rank)
        return sorted(due, key=lambda rank: (self._looks[rank].reads, rank))[:RANKS_MAX]

    def _read_own_stack(self, rank: int, look: RankLook, now_s: float) -> tuple[Doing, str] | None:
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
        prefixes, pipes = dump_places(AttemptFiles.of(self.run_dir, self.attempt), pids)
        if self._silent_since_s is None:
            self._silent_since_s = max((self._beaten_s(rank) for rank in ranks), default=0.0)
            for pipe in pipes:
                for rank in ranks:
                    ask_for_dump(pipe, rank)
        found = {path: mark_of(path) for prefix in prefixes for path in find_dumps(prefix, self._silent_since_s)}
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

    def close(self) -> None:
        self._forget(set(self._looks))

    def _forget(self, ranks: set[int]) -> None:
        for rank in ranks:
            self._looks.pop(rank).close()

    def _look_at(self, rank: int, life: RankLife, look: RankLook, files: AttemptFiles, now_s: float) -> tuple[Doing, str] | None:
        if life.pid is None:
            return None
        may_spy = sum(other.dump is not None for other in self._looks.values()) < SPIES_MAX
        return look.see(files, rank, life.pid, life.stack_signal, now_s, may_spy=may_spy)


def _changed_s(path: Path) -> float:
    """By the clock of files; 0.0 where it cannot be told. Opening makes NFS fetch fresh attributes."""
    try:
        with open(path, "rb", opener=regular) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0
