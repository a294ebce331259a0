"""What the ranks say of themselves, for people: through half-written beats, many ranks, and a new attempt."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.run_layout import attempt_folder, rank_file
from sentinel.run_files.heartbeats import RANKS_READ_MAX, RankBeats, RankSeen

WALL_S = 1.7e9


def beat(run_dir: Path, attempt: int, rank: int, step: int, phase: str, at_s: float = WALL_S) -> Path:
    path = rank_file(attempt_folder(run_dir, attempt) / "heartbeats", rank)
    HeartbeatFile(path).write({"step": step, "phase": phase, "time_s": at_s, "pid": 1, "host": "node-7"})
    os.utime(path, (at_s, at_s))
    return path


def test_step_phase_and_silence_of_each(tmp_path: Path) -> None:
    beat(tmp_path, 1, 0, 40, "forward", WALL_S - 1)
    beat(tmp_path, 1, 1, 39, "data", WALL_S - 12)
    beats = RankBeats(tmp_path)
    assert beats.refresh(1, WALL_S) == (RankSeen(0, 40, "forward", 1.0, "node-7"), RankSeen(1, 39, "data", 12.0, "node-7"))
    beat(tmp_path, 1, 1, 40, "forward", WALL_S + 1)
    assert [(seen.step, seen.silent_s) for seen in beats.refresh(1, WALL_S + 2)] == [(40, 3.0), (40, 1.0)]


def test_half_a_beat_shows_what_was_known_and_nothing_where_nothing_was(tmp_path: Path) -> None:
    beats = RankBeats(tmp_path)
    path = beat(tmp_path, 1, 0, 40, "forward")
    assert len(beats.refresh(1, WALL_S)) == 1
    path.write_text('{"step": 41, "pha')
    beat(tmp_path, 1, 1, 1, "init").write_text("[]")
    assert [seen.step for seen in beats.refresh(1, WALL_S)] == [40]


def test_a_new_attempt_begins_with_nobody_and_a_missing_folder_is_nobody(tmp_path: Path) -> None:
    beats = RankBeats(tmp_path)
    assert beats.refresh(1, WALL_S) == ()
    beat(tmp_path, 1, 0, 40, "forward")
    assert len(beats.refresh(1, WALL_S)) == 1
    assert beats.refresh(2, WALL_S) == ()


def test_of_thousands_the_first_are_looked_at(tmp_path: Path) -> None:
    folder = attempt_folder(tmp_path, 1) / "heartbeats"
    folder.mkdir(parents=True)
    for rank in range(RANKS_READ_MAX + 5):
        rank_file(folder, rank).write_text(json.dumps({"step": 1, "phase": "x" * 999}))
    seen = RankBeats(tmp_path).refresh(1, WALL_S)
    assert len(seen) == RANKS_READ_MAX
    assert len(seen[0].phase) < 50


def test_of_a_thousand_the_one_that_falls_silent_is_seen_whatever_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentinel.run_files.heartbeats.RANKS_READ_MAX", 4)
    beats = RankBeats(tmp_path)
    for second in range(12):
        for rank in range(10):
            if rank != 9 or second < 2:
                beat(tmp_path, 1, rank, second, "forward", WALL_S + second)
        seen = beats.refresh(1, WALL_S + second + 0.5)
        assert len(seen) == min(10, 4 * (second + 1))
    assert seen[9] == RankSeen(9, 1, "forward", 10.5, "node-7")
    assert {one.silent_s for one in seen[:9]} == {0.5}
    assert min(one.step for one in seen[:9]) >= 11 - 3, "each is read anew in its turn"
