"""What the ranks of an attempt say of themselves, for people: step, phase, and for how long each has been silent.

For showing only: whoever decides reads `telemetry/heartbeats.py`, and a heartbeat that cannot be read simply shows nothing.
Silence is counted by the machine's own clock from when the file was written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.strict_json import loads
from sentinel.clock import SystemClock
from sentinel.run_files.attempt_files import AttemptFiles, rank_files

RANKS_READ_MAX = 512  # files that one refresh opens: those of ranks not read yet first, then the ones read longest ago
RANKS_MAX = 8192  # the first; the silence of each is known at every refresh, since it costs no opening
BEAT_BYTES_MAX = 4096
TICK_S = 0.25  # beats are written in place: two within a tick of the filesystem's clock look like one
WORD_CHARS = 24


@dataclass(frozen=True, slots=True)
class RankSeen:
    rank: int
    step: int
    phase: str
    silent_s: float
    host: str = ""


class RankBeats:
    """Of a run's newest attempt. One thread at a time."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._attempt = -1
        self._known: dict[int, tuple[int, RankSeen]] = {}  # with the time of writing the record was read at
        self._refreshes = 0
        self._read_at: dict[int, int] = {}  # in which refresh

    def refresh(self, attempt: int, wall_s: float) -> tuple[RankSeen, ...]:
        """By rank; left out are those whose heartbeat never made sense, and at the first refreshes those that were not read yet.
        Of more than RANKS_READ_MAX step and phase may be some refreshes old."""
        if attempt != self._attempt:
            self._attempt, self._known, self._read_at = attempt, {}, {}
        self._refreshes += 1
        try:
            files = rank_files(AttemptFiles(self._run_dir, attempt).heartbeats)
        except OSError:
            return tuple(seen for _, seen in self._known.values())
        ranks = sorted(files)[:RANKS_MAX]
        due = [rank for rank in ranks if self._has_beaten(rank, files[rank], wall_s)]
        for rank in sorted(due, key=lambda rank: self._read_at.get(rank, 0))[:RANKS_READ_MAX]:
            self._read_at[rank] = self._refreshes
            self._read(rank, files[rank], wall_s)
        return tuple(self._known[rank][1] for rank in ranks if rank in self._known)

    def _has_beaten(self, rank: int, file: os.DirEntry[str], wall_s: float) -> bool:
        """Since its record was read. How long it has been silent is known either way."""
        known = self._known.get(rank)
        try:
            written_ns = file.stat().st_mtime_ns
        except OSError:
            return False
        if known is None:
            return True
        silent_s = max(0.0, wall_s - written_ns / 1e9)
        self._known[rank] = (known[0], replace(known[1], silent_s=silent_s))
        return known[0] != written_ns or silent_s <= TICK_S

    def _read(self, rank: int, file: os.DirEntry[str], wall_s: float) -> None:
        try:
            written_ns = file.stat().st_mtime_ns  # as it was seen before the content is read: what comes later is read again
            with open(file.path, "rb", opener=regular) as beat:
                content = beat.read(BEAT_BYTES_MAX)
            self._known[rank] = (written_ns, _read(rank, content, max(0.0, wall_s - written_ns / 1e9)))
        except (OSError, ValueError):
            return


def _read(rank: int, content: bytes, silent_s: float) -> RankSeen:
    """Raises ValueError for half a beat, or none."""
    beat = loads(content)
    if not isinstance(beat, dict) or type(beat.get("step")) is not int or not isinstance(beat.get("phase"), str):
        raise ValueError("a heartbeat needs a step and a phase")
    host = beat.get("host")
    return RankSeen(rank, beat["step"], beat["phase"][:WORD_CHARS], silent_s, host[:WORD_CHARS] if isinstance(host, str) else "")


def read_ranks(run_dir: Path, attempt: int) -> tuple[RankSeen, ...]:
    """Once, for whoever does not look again."""
    return RankBeats(run_dir).refresh(attempt, SystemClock().wall_s())
