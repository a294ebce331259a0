"""Heartbeats for a trainer that writes none: what the kernel of its machine shows of its processes.

A rank that is stopped, or that has used no processor for long while no step came, is in no evaluation and in no save: its
heartbeat then says that it is within a step, and the limit of a step holds for it. Whoever computes may be anywhere (an
evaluation, a compilation, a collective that spins), and its heartbeat says `idle`: it lives, and what it does is not known.
Whoever has saved and shown no later step may still be at it (an upload uses no processor), and its heartbeat says `checkpoint`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.machine import read_host
from sentinel.client.run_layout import attempt_folder, rank_file
from sentinel.launcher.process_tree import Process, find_descendants, read_environment, read_processes

LOOK_EVERY_S = 1.0
FIND_EVERY_S = 5.0
WORKS_EVERY_S = 30.0  # who works before the first step (a data set is prepared) says so as often
IDLE_S = 10.0  # without processor time for so long, and for IDLE_ROWS times as long as rows are apart
IDLE_ROWS = 3.0
IDLE_SHARE = 0.01  # of one core: what a waiting interpreter uses for its threads
STARTING, IN_STEP, SAVING, NOT_KNOWN = "init", "forward", "checkpoint", "idle"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def first_beat(run_dir: Path, attempt: int) -> None:
    """This process is about to become the trainer, and says so before a follower is up to say it: one that dies in between is
    known as the rank that it was. Where it starts the ranks (torchrun), they take its place once they are seen."""
    rank = _rank_of(os.getpid()) or 0
    path = rank_file(attempt_folder(run_dir, attempt) / "heartbeats", rank)
    with contextlib.suppress(OSError):  # the follower says it again
        HeartbeatFile(path).write(_beat_of(0, STARTING, os.getpid()))


def _beat_of(step: int, phase: str, pid: int) -> dict[str, object]:
    return {"step": step, "phase": phase, "time_s": time.time(), "pid": pid, "host": read_host()}


@dataclass
class _Rank:
    pid: int
    beats: HeartbeatFile
    used_s: float = 0.0  # processor time at `since_s`
    since_s: float = 0.0  # since when it has been idle
    written: tuple[int, str] | None = None
    written_s: float = 0.0


@dataclass
class Life:
    """Of the ranks below one process."""

    run_dir: Path
    attempt: int
    trainer_pid: int
    _ranks: dict[int, _Rank] = field(default_factory=dict)
    _looked_s: float = float("-inf")
    _found_s: float = float("-inf")
    _step: int = -1
    _row_s: float = 0.0
    _apart_s: float = 0.0  # the longest that rows were apart lately

    def row(self, step: int, now_s: float) -> None:
        """A step was seen."""
        if self._step >= 0:
            self._apart_s = max(self._apart_s * 0.9, now_s - self._row_s)
        self._step, self._row_s = step, now_s

    def turn(self, is_saving: bool, now_s: float) -> None:
        """Write the heartbeats that have changed. Never raises: who cannot be seen has none."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        try:
            processes = read_processes()
            if now_s - self._found_s >= FIND_EVERY_S:
                self._found_s = now_s
                self._find(processes, now_s)
            for rank, one in self._ranks.items():
                self._beat(one, _tree(processes, self._ranks[rank].pid), is_saving, now_s)
        except OSError:
            return

    def _find(self, processes: Mapping[int, Process], now_s: float) -> None:
        tree = {process.pid: process for process in _tree(processes, self.trainer_pid)}
        ranked = {pid: rank for pid in tree if (rank := _rank_of(pid)) is not None}
        found = {rank: pid for pid, rank in ranked.items() if tree[pid].parent not in ranked}
        found = found or ({0: self.trainer_pid} if tree else {})
        for rank, pid in found.items():
            if rank not in self._ranks or self._ranks[rank].pid != pid:
                path = rank_file(attempt_folder(self.run_dir, self.attempt) / "heartbeats", rank)
                self._ranks[rank] = _Rank(pid, HeartbeatFile(path), _used_s(_tree(processes, pid)), now_s)
        for rank in self._ranks.keys() - found.keys():
            del self._ranks[rank]

    def _beat(self, one: _Rank, tree: Sequence[Process], is_saving: bool, now_s: float) -> None:
        used_s = _used_s(tree)
        may_read = any(process.state == "D" for process in tree)  # a file on the network: no processor is used for it
        if used_s - one.used_s > IDLE_SHARE * max(now_s - one.since_s, LOOK_EVERY_S) or may_read:
            one.used_s, one.since_s = used_s, now_s
        is_stopped = any(process.pid == one.pid and process.state == "T" for process in tree)
        quiet_s = now_s - max(one.since_s, self._row_s)
        if self._step < 0:
            phase = STARTING
        elif is_saving and not is_stopped:
            phase = SAVING
        elif is_stopped or quiet_s > max(IDLE_S, IDLE_ROWS * self._apart_s):
            phase = IN_STEP
        else:
            phase = NOT_KNOWN
        beat = (max(self._step, 0), phase)
        if beat != one.written or (phase == STARTING and one.since_s == now_s and now_s - one.written_s >= WORKS_EVERY_S):
            one.written, one.written_s = beat, now_s
            one.beats.write(_beat_of(beat[0], phase, one.pid))


def _rank_of(pid: int) -> int | None:
    for entry in read_environment(pid):
        if entry.startswith(b"RANK=") and entry[5:].isdigit():
            return int(entry[5:])
    return None


def _tree(processes: Mapping[int, Process], pid: int) -> list[Process]:
    """The process and all below it, those that live."""
    pids = find_descendants(processes, [pid]) | {pid}
    return [processes[one] for one in sorted(pids) if one in processes and processes[one].is_living]


def _used_s(tree: Sequence[Process]) -> float:
    """Processor time of all of them."""
    return sum(_ticks(process.pid) for process in tree) / _TICKS_PER_S


def _ticks(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1")
        fields = text[text.rindex(")") + 2 :].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return 0
