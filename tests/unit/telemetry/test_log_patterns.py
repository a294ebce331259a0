"""Logs that grow, searched once: whole lines, whoever wrote them; lines in pieces, logs that are cut, floods, ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.client.run_layout import attempts_folder
from sentinel.launcher.log_cap import LogCap
from sentinel.model.readings import LogMatch
from sentinel.policy.line_patterns import compile_pattern
from sentinel.telemetry import log_patterns
from sentinel.telemetry.log_patterns import LogPatterns

ECC = ("Ecc", compile_pattern(r"ECC error on GPU (?P<gpu>\d+)"))
LINK = ("Link", compile_pattern("link down$"))


class Printed:
    def __init__(self, run_dir: Path, *patterns: tuple[str, object]) -> None:
        self.folder = attempts_folder(run_dir) / "0001" / "logs"
        self.folder.mkdir(parents=True)
        self.source = LogPatterns(run_dir, 1, patterns or (ECC, LINK))  # type: ignore[arg-type]

    def add(self, name: str, text: str | bytes) -> Printed:
        with (self.folder / name).open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        return self

    def found(self, *, is_over: bool = False) -> list[tuple[str, int | None, str]]:
        return [(one.name, one.rank, one.line) for one in self.source.poll(is_over=is_over)]


@pytest.fixture
def printed(tmp_path: Path) -> Printed:
    return Printed(tmp_path)


def test_nothing_is_found_where_nothing_was_printed(tmp_path: Path) -> None:
    assert LogPatterns(tmp_path, 1, (ECC,)).poll() == []


def test_ranks_and_launcher_standard_output_and_error(printed: Printed) -> None:
    printed.add("rank-00003.err", "ok\nECC error on GPU 5\n").add("rank-00000.out", "link down\n")
    printed.add("launcher.out", "[rank7]: ECC error on GPU 1\n").add("stranger.txt", "ECC error on GPU 9\n")
    assert sorted(printed.found(), key=str) == [
        ("Ecc", 3, "ECC error on GPU 5"), ("Ecc", 7, "ECC error on GPU 1"), ("Link", 0, "link down"),
    ]  # fmt: skip


def test_the_groups_go_with_it(printed: Printed) -> None:
    printed.add("rank-00003.err", "ECC error on GPU 5\n")
    assert printed.source.poll() == [LogMatch(1, "Ecc", 3, "ECC error on GPU 5", (("gpu", "5"),))]


def test_each_entry_is_told_once_of_each_writer(printed: Printed) -> None:
    printed.add("rank-00000.err", "ECC error on GPU 1\nECC error on GPU 2\n")
    assert len(printed.found()) == 1
    printed.add("rank-00000.err", "ECC error on GPU 1\n").add("rank-00000.out", "ECC error on GPU 1\n")
    printed.add("rank-00001.err", "ECC error on GPU 3\n")
    assert printed.found() == [("Ecc", 1, "ECC error on GPU 3")]


def test_a_line_that_comes_in_pieces_is_one_line(printed: Printed) -> None:
    for piece in ("ECC er", "ror on G", "PU 5"):
        printed.add("rank-00000.out", piece)
        assert printed.found() == []
    printed.add("rank-00000.out", "\n")
    assert printed.found() == [("Ecc", 0, "ECC error on GPU 5")]


def test_a_last_line_without_an_end_counts_when_nothing_more_comes(printed: Printed) -> None:
    printed.add("rank-00000.out", "link down")
    assert printed.found() == []
    assert printed.found(is_over=True) == [("Link", 0, "link down")]


def test_a_flood_is_read_in_turns_and_nothing_of_it_is_missed(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_patterns, "READ_BYTES", 4096)
    monkeypatch.setattr(log_patterns, "BLOCK_BYTES", 1000)
    printed.add("rank-00000.out", "a line of a flood\n" * 2000 + "ECC error on GPU 5\n").add("rank-00001.out", "link down\n")
    out, polls = [], 0
    while not out or printed.source.has_more:
        out += printed.found()
        polls += 1
    assert polls > 5
    assert sorted(out) == [("Ecc", 0, "ECC error on GPU 5"), ("Link", 1, "link down")]


def test_a_line_that_never_ends_is_searched_in_pieces_and_not_kept(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_patterns, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(log_patterns, "LINE_BYTES_MAX", 2000)
    printed.add("rank-00000.out", b"x" * 50_000 + b"\nlink down\n")
    assert printed.found() == [("Link", 0, "link down")]
    printed.add("rank-00000.out", b"x" * 50_000)
    printed.found()
    assert len(printed.source._logs["rank-00000.out"].rest) < 3000


def test_a_log_that_was_cut_is_read_on_from_its_new_beginning_and_what_was_kept_of_its_end(printed: Printed) -> None:
    printed.add("rank-00000.out", "before\n" * 500)
    assert printed.found() == []
    printed.add("rank-00000.out", "ECC error on GPU 5\n")
    LogCap(printed.folder, cap_bytes=1000, head_bytes=100, tail_bytes=500).keep(1.0)
    printed.add("rank-00000.out", "link down\n")
    assert sorted(printed.found()) == [("Ecc", 0, "ECC error on GPU 5"), ("Link", 0, "link down")]


def test_bytes_that_are_no_text_do_no_harm(printed: Printed) -> None:
    printed.add("rank-00000.out", b"\x00\xff\xfe\n\x80 ECC error on GPU 5 \xff\n")
    ((name, rank, line),) = printed.found()
    assert (name, rank, "ECC error on GPU 5" in line) == ("Ecc", 0, True)


def test_a_pipe_in_the_place_of_a_log_holds_nobody_up(printed: Printed) -> None:
    os.mkfifo(printed.folder / "rank-00001.out")
    printed.add("rank-00002.out", "link down\n")
    assert printed.found() == [("Link", 2, "link down")]
