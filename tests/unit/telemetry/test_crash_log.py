"""One log of any size: read backwards to its last step lines, forwards from there, bounded, each line with its number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.telemetry import crash_log
from sentinel.telemetry.crash_log import read_log_end

STEP = "iteration {} / 400 | lm loss: 2.1\n"
ERROR = "[rank{}]: RuntimeError: CUDA error: misaligned address\n"


@pytest.fixture
def _small(monkeypatch) -> None:
    monkeypatch.setattr(crash_log, "CHUNK_BYTES", 64)
    monkeypatch.setattr(crash_log, "TAIL_BYTES", 200)


def written(folder: Path, text: str) -> Path:
    path = folder / "x.log"
    path.write_text(text)
    return path


def test_what_tells_is_kept_from_before_the_last_lines_with_its_number(tmp_path: Path) -> None:
    text = STEP.format(1) + ERROR.format(5) + "nothing\n" * 5000 + "last\n"
    end = read_log_end(written(tmp_path, text), numbered=True)
    assert end.lines[:2] == (STEP.format(1).rstrip(), ERROR.format(5).rstrip())
    assert end.numbers[:2] == (1, 2)
    assert (end.lines[-1], end.numbers[-1]) == ("last", 5003)
    assert len(end.lines) == 2 + crash_log.LINES_KEPT


def test_it_is_read_back_to_the_last_step_lines_and_not_further(tmp_path: Path) -> None:
    text = ERROR.format(1) + "".join(STEP.format(n) for n in range(20_000)) + ERROR.format(5) + "nothing\n" * 5000
    end = read_log_end(written(tmp_path, text), numbered=True)
    assert ERROR.format(1).rstrip() not in end.lines
    at = end.lines.index(ERROR.format(5).rstrip())
    assert end.numbers[at] == 20_002
    assert 0 < end.searched_bytes < len(text) / 2
    assert not end.is_cut


def test_the_bound_is_kept_and_said(tmp_path: Path) -> None:
    text = ERROR.format(5) + "nothing\n" * 50_000
    end = read_log_end(written(tmp_path, text), 100_000, numbered=True)
    assert (end.is_cut, end.searched_bytes) == (True, 100_000)
    assert ERROR.format(5).rstrip() not in end.lines
    assert end.numbers[-1] == 50_001


def test_a_flood_of_one_rank_leaves_room_for_the_others(tmp_path: Path) -> None:
    flood = "".join(f"[rank1]: ERROR: item {n} failed: {n * 7}\n" for n in range(30_000))
    end = read_log_end(written(tmp_path, flood + ERROR.format(5) + "nothing\n" * 5000))
    assert ERROR.format(5).rstrip() in end.lines
    assert len(end.lines) < 1000


@pytest.mark.usefixtures("_small")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([STEP.format(3), ERROR.format(1), ERROR.format(2), "no\n", "x" * 300 + "\n", "\n"]), max_size=50)
)
def test_wherever_chunks_break_the_numbers_are_those_of_the_file(tmp_path_factory, lines: list[str]) -> None:
    text = "".join(lines)
    path = written(tmp_path_factory.mktemp("log"), text)
    packed = path.with_name("x.gz")
    packed.write_bytes(gzip.compress(text.encode()))
    for end in (read_log_end(path, numbered=True), read_log_end(path, lines_kept=3, numbered=True), read_log_end(packed)):
        for line, number in zip(end.lines, end.numbers, strict=True):
            assert lines[number - 1].rstrip("\n").startswith(line[:100])
        assert list(end.numbers) == sorted(set(end.numbers))
    tail = text[text.rfind(STEP.format(3)) + len(STEP.format(3)) if STEP.format(3) in text else 0 :]
    for rank in (1, 2):
        assert (ERROR.format(rank) in tail) <= (ERROR.format(rank).rstrip() in read_log_end(path).lines)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_raise(tmp_path_factory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "x"
    path.write_bytes(b"text" + data)
    read_log_end(path, 300, numbered=True)


def test_packed_data_that_is_not_read_names_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 20)
    with pytest.raises(OSError, match="zstd -d"):
        read_log_end(path)


def test_a_compressed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    data = gzip.compress((ERROR.format(5) + "".join(f"line {n * n}\n" for n in range(50_000))).encode())
    path.write_bytes(data[: len(data) // 2])
    assert ERROR.format(5).rstrip() in read_log_end(path).lines


def test_a_traceback_behind_the_bars_of_one_long_line_is_seen(tmp_path: Path) -> None:
    """A bar is redrawn thousands of times on one line, and Python prints its traceback behind the last."""
    path = tmp_path / "log"
    for packed in (False, True):
        bars = "".join(f"\rEpoch 0:  12%|#   | {n}/100000 [00:12<01:30, 9.8it/s]" for n in range(10_000))
        data = (bars + 'Traceback (most recent call last):\n  File "x", line 1, in f\nValueError: bad\n').encode()
        path.write_bytes(gzip.compress(data) if packed else data)
        lines = read_log_end(path).lines
        assert lines[0].endswith("9999/100000 [00:12<01:30, 9.8it/s]Traceback (most recent call last):")
        assert lines[-1] == "ValueError: bad"


def test_of_a_line_no_more_is_matched_than_counts(tmp_path: Path, monkeypatch) -> None:
    """Patterns take time in the square of a line: 20,000 lines of 8,000 characters took over two minutes."""
    path = tmp_path / "log"
    path.write_text("".join(f"ValueError: {n} {'z' * 8000}\n" for n in range(50)) + "end\n" * 700)
    seen: list[int] = []
    monkeypatch.setattr(crash_log, "match_line", lambda line: seen.append(len(line)))
    read_log_end(path)
    assert seen
    assert max(seen) <= crash_log.TEXT_CHARS
