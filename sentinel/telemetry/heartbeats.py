"""Reads attempts/N/heartbeats/rank-*.json and reports a beat when its content changed. It judges no silence.

A poll costs one directory listing and one stat per rank; a file is opened only when its mtime, inode or size is new, and for a
moment after: beats are written in place, and two within one tick of the filesystem's clock leave the same mtime. A file that
cannot be read, that changes while it is read, or is no heartbeat is left out this time and tried again at the next poll.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import attempt_folder
from sentinel.model.agents import AgentReport, BeatOnNode
from sentinel.model.readings import Heartbeat, Phase, Reading
from sentinel.run_files.agent_rows import beat_of
from sentinel.run_files.attempt_files import rank_files
from sentinel.run_files.stream_lines import parse_object, real_number, whole_number
from sentinel.telemetry.source import SourceHealth, describe_os_error

FILE_BYTES_MAX = 1 << 16
PHASES: dict[str, Phase] = {phase: phase for phase in get_args(Phase)}
LIST_EVERY_S = 5.0
YOUNG_S, LIST_YOUNG_S = 60.0, 0.5  # ranks of a new attempt appear one by one, and agents tell of each seconds later
SETTLED_S = 0.25  # far above the tick of any filesystem's clock (4 to 10 ms)
UNKNOWN_PHASE: Phase = "idle"  # a word of a newer trainer: the rank lives, what it does is not known here

Signature = tuple[int, int, int]


class RankLife(NamedTuple):
    """Where a rank lives, by its newest heartbeat, first read at `changed_s`. `pid` None: it does not say. `time_s`: its own.
    `stack_after_s`: seconds of silence after which it writes its stacks by itself; None: it does not, or an agent tells of it.
    A tuple: 16,384 are made a second."""

    step: int
    pid: int | None
    host: str
    stack_signal: int | None
    changed_s: float
    time_s: float = 0.0
    stack_after_s: float | None = None


class Heartbeats:
    """The heartbeats of one attempt. `lives`: by rank."""

    def __init__(self, run_dir: Path, attempt: int, health: SourceHealth | None = None) -> None:
        self.folder = attempt_folder(run_dir, attempt) / "heartbeats"
        self.attempt = attempt
        self._health = health if health is not None else SourceHealth("heartbeats")
        self._signatures: dict[int, tuple[Signature, float]] = {}  # and when, by our clock, it was first seen
        self._contents: dict[int, bytes] = {}
        self._by_agent: set[int] = set()  # ranks whose newest heartbeat an agent has told
        self._listed_s = float("-inf")
        self._began_s: float | None = None  # the first poll
        self.lives: dict[int, RankLife] = {}

    @property
    def has_more(self) -> bool:
        return False

    def hear(self, reports: Sequence[AgentReport], now_s: float) -> list[Reading]:
        """The same from agents: one reading per rank whose heartbeat is another than the one that was last known."""
        out: list[Reading] = []
        lives, attempt, phases, by_agent = self.lives, self.attempt, PHASES, self._by_agent
        for report in reports:
            for its_attempt, rank, pid, _doing, _where, beat in report.ranks:
                if beat is None or its_attempt != attempt:
                    continue
                step, phase, time_s, number, busy_step, busy_s, host = beat
                known = lives.get(rank)
                if known is not None and known.time_s == time_s and known.step == step:
                    continue
                lives[rank] = RankLife(step, pid, host, number, now_s, time_s)
                out.append(Heartbeat(attempt, rank, step, phases.get(phase, UNKNOWN_PHASE), time_s, busy_s, busy_step, host))
                if rank not in by_agent:
                    by_agent.add(rank)
                    self._contents.pop(rank, None)
                    self._signatures.pop(rank, None)
        return out

    def poll(self, now_s: float, covered: Set[int] = frozenset()) -> list[Reading]:
        """One reading per rank whose heartbeat changed, by rank. `covered`: of these an agent tells, and their files are not
        read; where that is every rank that is known, others are looked for now and then, of a young attempt often."""
        self._began_s = now_s if self._began_s is None else self._began_s
        list_every_s = LIST_YOUNG_S if now_s - self._began_s < YOUNG_S else LIST_EVERY_S
        if covered and now_s - self._listed_s < list_every_s and covered >= self.lives.keys():
            return []
        try:
            entries = rank_files(self.folder)
        except OSError as error:
            return [*self._health.lost(describe_os_error(error))]
        self._listed_s = now_s
        out: list[Reading] = [*self._health.regained()]
        for rank in sorted(entries.keys() - covered):
            try:
                status = entries[rank].stat()
                signature = (status.st_mtime_ns, status.st_ino, status.st_size)
                known, since_s = self._signatures.get(rank, (None, now_s))
                if known == signature and now_s - since_s > SETTLED_S:
                    continue
                content = _read_whole(entries[rank].path)
                if content != self._contents.get(rank):
                    beat, life = _read_beat(parse_object(content), self.attempt, rank, now_s)
                    if rank not in self._by_agent or not _is_same(self.lives[rank], life):
                        out.append(beat)
                        self.lives[rank] = life
                    else:
                        self.lives[rank] = life._replace(changed_s=self.lives[rank].changed_s)
                    self._by_agent.discard(rank)
            except (OSError, ValueError):
                continue
            self._signatures[rank] = (signature, since_s if known == signature else now_s)
            self._contents[rank] = content
        return out


def _read_whole(path: str) -> bytes:
    """Raises ValueError where a writer was at it between two looks."""
    with open(path, "rb", opener=regular) as file:
        content = file.read(FILE_BYTES_MAX)
        file.seek(0)
        if file.read(FILE_BYTES_MAX) != content:
            raise ValueError("it changed while it was read")
    return content


def _read_beat(fields: Mapping[str, Any], attempt: int, rank: int, now_s: float) -> tuple[Heartbeat, RankLife]:
    """Raises ValueError for what is no heartbeat."""
    beat = beat_of(fields)
    if beat is None:
        raise ValueError("a heartbeat needs a step and a phase")
    pid, after_s = whole_number(fields.get("pid"), 0), real_number(fields.get("stack_after_s"), -1.0)
    life = _life(beat, pid if pid > 0 else None, now_s)
    return _heartbeat(beat, attempt, rank), life._replace(stack_after_s=after_s if after_s > 0.0 else None)


def _heartbeat(beat: BeatOnNode, attempt: int, rank: int) -> Heartbeat:
    phase = PHASES.get(beat.phase, UNKNOWN_PHASE)
    return Heartbeat(attempt, rank, beat.step, phase, beat.time_s, beat.busy_s, beat.busy_step, beat.host)


def _life(beat: BeatOnNode, pid: int | None, now_s: float) -> RankLife:
    return RankLife(beat.step, pid, beat.host, beat.stack_signal, now_s, beat.time_s)


def _is_same(one: RankLife, other: RankLife) -> bool:
    """Whether both are the same heartbeat, by an agent and by its file."""
    return (one.step, one.time_s, one.pid) == (other.step, other.time_s, other.pid)
