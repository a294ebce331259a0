"""Log files that policy or profile name: what is older than the attempt, files that move, grow anew, come later, or are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.policy.line_patterns import compile_pattern
from sentinel.telemetry import named_logs
from sentinel.telemetry.log_patterns import LogPatterns
from sentinel.telemetry.named_logs import FIND_EVERY_S, NamedLogs, note_before

ECC = ("Ecc", compile_pattern("ECC error"))
LINK = ("Link", compile_pattern("link down"))


class Run:
    """A run whose attempt 2 is about to be launched, and the folder that its trainer logs to."""

    def __init__(self, folder: Path) -> None:
        self.run_dir, self.logs = folder / "run", folder / "logs"
        self.run_dir.mkdir()
        self.logs.mkdir()
        self.patterns = (str(self.logs / "**" / "*.log*"),)
        self.source: LogPatterns | None = None

    def write(self, name: str, text: str, mode: str = "a") -> None:
        with (self.logs / name).open(mode) as file:
            file.write(text)

    def launched(self) -> Run:
        note_before(self.run_dir, 2, self.patterns)
        return self.watched()

    def watched(self) -> Run:
        self.source = LogPatterns(self.run_dir, 2, (ECC, LINK), self.patterns)
        return self

    def found(self, now_s: float = 0.0, *, is_over: bool = False) -> list[tuple[str, int | None, str]]:
        assert self.source is not None
        return sorted(((one.name, one.rank, one.line) for one in self.source.poll(now_s, is_over=is_over)), key=str)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_what_stood_there_before_the_launch_is_of_an_earlier_attempt(run: Run) -> None:
    run.write("train.log", "ECC error of yesterday\n")
    run.launched()
    assert run.found() == []
    run.write("train.log", "link down now\n")
    assert run.found() == [("Link", None, "link down now")]
    run.watched()
    assert run.found() == [("Link", None, "link down now")], "a supervisor that was started again"


def test_the_rank_is_that_of_the_label_or_of_the_name_and_no_place_on_a_node(run: Run) -> None:
    run.launched()
    run.write("train.log", "[rank7]: ECC error\n")
    run.write("rank-3.log", "ECC error\n")
    run.write("node_rank_5.log", "ECC error\n")
    run.write("local-rank-6.log", "ECC error\n")
    assert [rank for _, rank, _ in run.found()] == [3, 7, None, None]


def test_each_file_tells_an_entry_once(run: Run) -> None:
    run.launched()
    run.write("a.log", "ECC error\nECC error\n")
    run.write("b.log", "ECC error\n")
    assert len(run.found()) == 2
    run.write("a.log", "ECC error\n")
    assert run.found() == []


def test_a_log_that_the_trainer_begins_anew_is_read_from_its_first_byte(run: Run) -> None:
    run.write("train.log", "ECC error of yesterday\n")
    run.launched()
    run.write("train.log", "ECC error of this attempt, in a longer line than before\n", "w")
    assert run.found() == [("Ecc", None, "ECC error of this attempt, in a longer line than before")]


def test_a_log_that_is_rotated_away_is_not_told_again(run: Run) -> None:
    run.write("train.log", "ECC error of yesterday\n")
    run.launched()
    (run.logs / "train.log").rename(run.logs / "train.log.1")
    run.write("train.log", "link down now\n")
    assert run.found() == [("Link", None, "link down now")]


def test_a_file_that_comes_later_is_found_at_the_next_look_or_at_the_end(run: Run) -> None:
    run.launched()
    assert run.found(100.0) == []
    (run.logs / "below").mkdir()
    run.write("below/late.log", "ECC error\n")
    assert run.found(100.0 + FIND_EVERY_S / 2) == []
    assert run.found(100.0 + FIND_EVERY_S) == [("Ecc", None, "ECC error")]
    run.write("below/last.log", "link down")
    assert run.found(101.0 + FIND_EVERY_S, is_over=True) == [("Link", None, "link down")]


def test_a_file_that_is_named_only_while_the_attempt_lives_counts_from_its_end(run: Run) -> None:
    note_before(run.run_dir, 2, ())
    run.write("train.log", "ECC error, and nobody knows when\n")
    run.watched()
    assert run.found() == []
    run.write("train.log", "link down now\n")
    assert run.found() == [("Link", None, "link down now")]


def test_a_note_of_another_attempt_or_one_that_cannot_be_used_counts_for_nothing(run: Run) -> None:
    run.write("train.log", "ECC error of attempt 1\n")
    note_before(run.run_dir, 1, run.patterns)
    run.write("train.log", "ECC error of attempt 1, too\n")
    assert run.launched().found() == []
    for damaged in (b"", b"[]", b'{"attempt": 2}', b'{"attempt": 2, "patterns": [], "files": {"a": 7}}'):
        (run.run_dir / named_logs.NOTED_NAME).write_bytes(damaged)
        assert run.watched().found() == []


def test_pipes_folders_and_what_cannot_be_opened_hold_nobody_up(run: Run) -> None:
    os.mkfifo(run.logs / "pipe.log")
    (run.logs / "folder.log").mkdir()
    (run.logs / "gone.log").symlink_to(run.logs / "nothing")
    run.launched()
    run.write("train.log", "link down\n")
    assert run.found() == [("Link", None, "link down")]


def test_a_pattern_for_more_files_than_can_be_watched_is_bounded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_logs, "FILES_MAX", 5)
    for number in range(9):
        run.write(f"{number}.log", "x\n")
    assert len(NamedLogs(run.run_dir, 2, run.patterns).find(0.0)) == 5
