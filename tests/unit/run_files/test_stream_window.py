"""A piece of a stream, however long it is: the right steps, bounded bytes, and damage shows nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from sentinel.client.run_layout import stream_path
from sentinel.run_files import stream_window
from sentinel.run_files.stream_window import read_steps, read_thinned, read_world_size

LOSS = {"loss"}.__contains__


def write(run_dir: Path, lines: list[object]) -> Path:
    path = stream_path(run_dir, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def long_stream(run_dir: Path, steps: int = 20_000) -> Path:
    lines: list[object] = [{"kind": "start", "world_size": 8}]
    for step in range(1, steps + 1):
        lines.append({"step": step, "loss": 2.0 + step / steps, "lr": 1.0, "padding": "x" * 60})
        if step % 7 == 0:
            lines.append({"kind": "event", "event": "checkpoint_committed", "step": step})
    return write(run_dir, lines)


def test_a_window_in_the_middle_of_a_long_stream_is_found_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = long_stream(tmp_path)
    assert path.stat().st_size > 20 * stream_window.CLOSE_BYTES
    for first in (1, 2, 5000, 9_999, 19_990):
        rows = read_steps(tmp_path, 1, first, first + 9, LOSS)
        assert [step for step, _ in rows] == list(range(first, first + 10))
        assert set(rows[0][1]) == {"loss"}
    parsed: list[bytes] = []
    really = stream_window._fields
    monkeypatch.setattr(stream_window, "_fields", lambda line: (parsed.append(line), really(line))[1])
    read_steps(tmp_path, 1, 15_000, 15_009, LOSS)
    assert sum(map(len, parsed)) < 3 * stream_window.CLOSE_BYTES


def test_a_window_is_bounded_by_bytes(tmp_path: Path) -> None:
    long_stream(tmp_path)
    rows = read_steps(tmp_path, 1, 100, 20_000, LOSS, bytes_max=50_000)
    assert 100 <= rows[0][0] <= 101
    assert len(rows) < 600


def test_a_long_stream_is_thinned_evenly(tmp_path: Path) -> None:
    path = long_stream(tmp_path)
    rows, share = read_thinned(tmp_path, 1, LOSS, bytes_max=path.stat().st_size // 10)
    steps = [step for step, _ in rows]
    assert steps == sorted(set(steps))
    assert share == pytest.approx(0.1, rel=0.01)
    assert 1000 < len(steps) < 3000
    assert max(b - a for a, b in pairwise(steps)) < 1000
    whole, share = read_thinned(tmp_path, 1, LOSS, bytes_max=1 << 30)
    assert (len(whole), share) == (20_000, 1.0)


def test_damage_and_absence_show_nothing(tmp_path: Path) -> None:
    assert read_steps(tmp_path, 1, 0, 10, LOSS) == []
    assert read_thinned(tmp_path, 1, LOSS) == ([], 0.0)
    assert read_world_size(tmp_path, 1) is None
    start = {"kind": "start", "world_size": "eight"}
    path = write(tmp_path, [start, {"step": 1, "loss": "NaN"}, {"step": 2, "loss": [3]}, {"step": True}])
    with path.open("ab") as file:
        file.write(b"\xff\xfe garbage\n" + b"[" * 100_000 + b"\n" + b'{"step": 3, "loss": 5}')
    rows = read_steps(tmp_path, 1, 0, 10, LOSS)
    assert [(step, sorted(metrics)) for step, metrics in rows] == [(1, ["loss"]), (2, []), (3, ["loss"])]
    assert read_world_size(tmp_path, 1) is None


def test_the_receipt_names_the_ranks(tmp_path: Path) -> None:
    long_stream(tmp_path, 3)
    assert read_world_size(tmp_path, 1) == 8
