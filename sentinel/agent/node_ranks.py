"""The run's ranks on this node: which processes they are, what each does, its heartbeat as it stands, and which have gone.

A process of a rank carries the run's mark and a RANK, and its heartbeat names it. A walk through all processes of the node costs
some ten milliseconds, so it is made every WALK_EVERY_S; processes that are known are looked at every time. Where nothing of an
attempt has a RANK, the heartbeats are searched for its processes, which on a shared filesystem nobody should do often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import rank_file
from sentinel.launcher.exit_report import read_code, read_object, read_pid
from sentinel.launcher.marked import MarkedProcess, choose_rank_processes, find_marked
from sentinel.launcher.process_tree import Process, is_same_process
from sentinel.launcher.rank_processes import read_state
from sentinel.model.agents import EndedOnNode, RankOnNode
from sentinel.model.readings import Doing
from sentinel.run_files.agent_files import ENDED_MAX
from sentinel.run_files.agent_rows import RANKS_MAX, beat_of
from sentinel.run_files.attempt_files import AttemptFiles, rank_files

WALK_EVERY_S = 5.0
SEARCH_EVERY_S = 30.0

Key = tuple[int, int]  # attempt and rank


@dataclass(slots=True)
class _Known:
    """`is_blocked`: at the last look. One such look may be a moment of a healthy read."""

    process: Process
    is_blocked: bool = False


class NodeRanks:
    """Of one run. `marked`: every process of the run here, by pid, as of the last walk."""

    def __init__(self, run_dir: Path, node: str) -> None:
        """`run_dir`: resolved."""
        self._run_dir, self._node = run_dir, node
        self._known: dict[Key, _Known] = {}
        self._walked_s = self._searched_s = float("-inf")
        self.marked: Mapping[int, MarkedProcess] = {}
        self.ended: deque[EndedOnNode] = deque(maxlen=ENDED_MAX)
        self.has_walked = False  # at the last look

    def look(self, now_s: float, *, at_once: bool = False) -> tuple[RankOnNode, ...]:
        """By attempt and rank, at most RANKS_MAX. `at_once`: with a walk, whenever the last one was."""
        gone = {key for key, known in self._known.items() if not is_same_process(known.process.pid, known.process.create_time)}
        for key in sorted(gone):
            self._end(key, self._known.pop(key).process)
        self.has_walked = at_once or bool(gone) or now_s - self._walked_s >= WALK_EVERY_S
        if self.has_walked:
            self._walk(now_s)
        seen = (self._see(key, self._known[key]) for key in sorted(self._known)[:RANKS_MAX])
        return tuple(one for one in seen if one is not None)

    def process_of(self, attempt: int, rank: int) -> Process | None:
        known = self._known.get((attempt, rank))
        return None if known is None else known.process

    def _walk(self, now_s: float) -> None:
        self._walked_s = now_s
        self.marked = find_marked(self._run_dir, self._node)
        chosen = choose_rank_processes(self.marked)
        unranked = {one.attempt for one in self.marked.values()} - {attempt for attempt, _ in chosen}
        if unranked and now_s - self._searched_s >= SEARCH_EVERY_S:
            self._searched_s = now_s
            chosen |= self._search(unranked)
        for key, process in chosen.items():
            process = self._named_by_heartbeat(key) or process
            known = self._known.get(key)
            if known is None or (known.process.pid, known.process.create_time) != (process.pid, process.create_time):
                if known is not None:
                    self._end(key, known.process)
                self._known[key] = _Known(process)

    def _search(self, attempts: Iterable[int]) -> dict[Key, Process]:
        """Ranks of attempts whose processes tell no RANK, by the pids that their heartbeats name."""
        found: dict[Key, Process] = {}
        for attempt in attempts:
            with suppress(OSError):
                for rank in rank_files(self._files(attempt).heartbeats):
                    process = self._named_by_heartbeat((attempt, rank))
                    if process is not None:
                        found[attempt, rank] = process
        return found

    def _named_by_heartbeat(self, key: Key) -> Process | None:
        beat = self._read(key, "heartbeats")
        marked = self.marked.get(read_pid(beat) or 0)
        return marked.process if marked is not None and marked.attempt == key[0] else None

    def _see(self, key: Key, known: _Known) -> RankOnNode | None:
        attempt, rank = key
        state = read_state(known.process.pid, self._files(attempt).environment)
        if state is None:
            return None  # it has ended since, or is another program now: the next look tells
        doing, where = state
        was_blocked, known.is_blocked = known.is_blocked, doing == "blocked"
        shown: Doing = "runs" if doing == "blocked" and not was_blocked else doing
        beat = self._read(key, "heartbeats")
        is_own = read_pid(beat) in (known.process.pid, None) and bool(beat)
        return RankOnNode(attempt, rank, known.process.pid, shown, where, beat_of(beat) if is_own else None)

    def _end(self, key: Key, process: Process) -> None:
        attempt, rank = key
        self.ended.append(EndedOnNode(attempt, rank, process.pid, read_code(self._read(key, "exits"))))

    def _read(self, key: Key, folder: str) -> Mapping[str, Any]:
        """What the rank has written there; empty where there is nothing that can be read."""
        with suppress(OSError):
            return read_object(rank_file(self._files(key[0]).folder / folder, key[1])) or {}
        return {}

    def _files(self, attempt: int) -> AttemptFiles:
        return AttemptFiles(self._run_dir, attempt)


def with_sight(one: RankOnNode, sight: tuple[Doing, str] | None) -> RankOnNode:
    """As a closer look has it."""
    return one if sight is None else one._replace(doing=sight[0], where=sight[1])
