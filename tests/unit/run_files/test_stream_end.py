"""The newest steps of a stream are found from its end, whatever stands between them and however long the stream is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.run_files.stream_end import FIRST_BYTES, find_newest

RECEIPT = {"kind": "start", "v": 1, "attempt": 1}


def write(path: Path, *lines: dict[str, object]) -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path


def steps(*numbers: int, **more: object) -> list[dict[str, object]]:
    return [{"kind": "step", "step": number, "loss": 2.5, **more} for number in numbers]


def first_line(path: Path, offset: int) -> object:
    return json.loads(path.read_bytes()[offset:].split(b"\n")[0])


@pytest.mark.parametrize("count", [1, 2, 10, 3000, 9999])
def test_it_is_where_the_line_of_that_step_begins(tmp_path: Path, count: int) -> None:
    path = write(tmp_path / "metrics.jsonl", RECEIPT, *steps(*range(1, 10_001)))
    assert path.stat().st_size > 4 * FIRST_BYTES
    assert first_line(path, find_newest(path, count)) == steps(10_001 - count)[0]


def test_what_has_no_more_steps_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", RECEIPT, *steps(1, 2))
    assert find_newest(path, 3) == 0
    assert find_newest(tmp_path / "none", 3) == 0
    assert find_newest(write(tmp_path / "empty"), 3) == 0


def test_events_torn_and_damaged_lines_are_no_steps(tmp_path: Path) -> None:
    event = {"kind": "event", "event": "eval", "step": 3, "data": "x" * 1000}
    path = write(tmp_path / "metrics.jsonl", *steps(1, 2, 3), *[event] * 200, *steps(4))
    path.write_bytes(path.read_bytes() + b'not json\n{"step": 5, "lo')
    assert first_line(path, find_newest(path, 2)) == steps(3)[0]


def test_no_more_is_looked_at_than_the_bound(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", *steps(*range(100), text="x" * 1000))
    line = path.stat().st_size // 100
    offset = find_newest(path, 50, bytes_max=10 * line)
    assert first_line(path, offset) in (*steps(90, 91, text="x" * 1000),)
    assert offset >= path.stat().st_size - 10 * line


def test_what_cannot_be_read_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        find_newest(tmp_path, 1)
