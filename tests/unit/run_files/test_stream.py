"""A stream, however long it is: its receipt, its end, a slice, all of it in pieces; bounded bytes, and damage shows nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from sentinel.client.run_layout import stream_path
from sentinel.run_files import stream
from sentinel.run_files.stream import (
    LINE_BYTES_MAX,
    PIECE_BYTES,
    StreamPieces,
    lines_backwards,
    read_last_metric,
    read_newest_metrics,
    read_newest_step,
    read_steps,
    read_thinned,
    read_tokens_per_sample,
    read_total_steps,
    read_world_size,
)

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
    assert path.stat().st_size > 20 * stream.CLOSE_BYTES
    for first in (1, 2, 5000, 9_999, 19_990):
        rows = read_steps(tmp_path, 1, first, first + 9, LOSS)
        assert [step for step, _ in rows] == list(range(first, first + 10))
        assert set(rows[0][1]) == {"loss"}
    parsed: list[bytes] = []
    really = stream._step
    monkeypatch.setattr(stream, "_step", lambda line: (parsed.append(line), really(line))[1])
    read_steps(tmp_path, 1, 15_000, 15_009, LOSS)
    assert sum(map(len, parsed)) < 3 * stream.CLOSE_BYTES


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


def test_the_receipt_says_steps_and_tokens_and_damage_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, [{"kind": "start", "steps": 600, "tokens_per_step": 4096}, {"step": 1, "samples": [[0, 6], [6, 8]]}])
    assert (read_total_steps(tmp_path, 1), read_tokens_per_sample(tmp_path, 1)) == (600, 512.0)
    write(tmp_path, [{"kind": "start", "steps": "many", "tokens_per_step": -1}, {"step": 1, "samples": "all"}])
    assert (read_total_steps(tmp_path, 1), read_tokens_per_sample(tmp_path, 1)) == (None, None)
    assert (read_total_steps(tmp_path, 2), read_tokens_per_sample(tmp_path, 2)) == (None, None)


def test_the_end_is_read_from_the_end(tmp_path: Path) -> None:
    path = long_stream(tmp_path)
    with path.open("a") as file:
        file.write('{"step": 20001, "loss": "NaN", "val_loss": 3}\n{"kind": "event", "step": 5}\n[1]\nno json\n')
        file.write('{"step": 20002, "lo')
    assert read_newest_step(tmp_path, 1) == 20_001
    step, metrics = read_newest_metrics(tmp_path, 1) or (0, {})
    assert (step, sorted(metrics)) == (20_001, ["loss", "val_loss"])
    assert read_last_metric(tmp_path, 1, "val_loss") == (20_001, 3.0)
    assert read_last_metric(tmp_path, 1, "lr") == (20_000, 1.0)
    assert read_last_metric(tmp_path, 1, "none") is read_newest_step(tmp_path, 2) is read_newest_metrics(tmp_path, 2) is None


def test_backwards_comes_every_line_once(tmp_path: Path) -> None:
    lines = [b"x" * (n % 90) for n in range(300)]
    (tmp_path / "file").write_bytes(b"\n".join(lines))
    for block_bytes in (7, 64, 1 << 20):
        blocks = list(lines_backwards(tmp_path / "file", 1 << 30, block_bytes))
        assert [line for block in reversed(blocks) for line in block] == lines


def drain(pieces: StreamPieces, is_over: bool = False) -> list[bytes]:
    found: list[bytes] = []
    has_more = True
    while has_more:
        piece = pieces.read(is_over)
        found += [line for line in piece.lines if line]
        has_more = piece.has_more
    return found


def test_a_growing_stream_comes_in_pieces_of_whole_lines(tmp_path: Path) -> None:
    path = long_stream(tmp_path)
    pieces = StreamPieces(path)
    first = pieces.read(is_over=False)
    assert (first.has_more, first.is_end) == (True, False)
    assert 0 < sum(map(len, first.lines)) <= PIECE_BYTES
    rest = drain(pieces)
    assert [line for line in [*first.lines, *rest] if line] == path.read_bytes().split(b"\n")[:-1]
    with path.open("ab") as file:
        file.write(b'{"step": 1')
    assert pieces.read(is_over=False).lines == [b""], "its end is still to come"
    last = pieces.read(is_over=True)
    assert (last.lines, last.is_end, last.has_more) == ([b'{"step": 1'], True, False)
    assert drain(StreamPieces(path, pieces.taken)) == []


def test_a_stream_cut_or_not_there_and_a_line_without_an_end(tmp_path: Path) -> None:
    pieces = StreamPieces(tmp_path / "metrics.jsonl")
    assert (pieces.read(False).lines, pieces.read(True).is_end) == ([b""], False)
    pieces.path.write_bytes(b"one\ntwo\n")
    assert drain(pieces) == [b"one", b"two"]
    pieces.path.write_bytes(b"1\n")
    piece = pieces.read(False)
    assert (piece.lines[0], piece.is_anew) == (b"1", True)
    pieces.path.write_bytes(b"1\n" + b"x" * (LINE_BYTES_MAX + 10) + b"\ngood\n")
    assert drain(pieces) == [b"x" * 10, b"good"], "of the long line only its end"
