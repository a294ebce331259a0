"""`sentinel logs`: whose line, from the end, through cuts, relaunches and whatever programs print."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import attempt_folder
from sentinel.errors import UsageError
from sentinel.journal.session import take_run
from sentinel.launcher.log_cap import LogCap
from sentinel.model.facts import Fact
from sentinel.report.log_files import BLOCK_BYTES, LogFile, LogFollower, read_tail
from sentinel.report.logs import LogLine, LogQuery, read_logs
from tests.unit.run_files.test_heartbeats import beat
from tests.unit.told_run import at, told, write_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """It stands in attempt 2, which is not over."""
    return write_run(tmp_path / "run", until=42)


def write(run_dir: Path, attempt: int, name: str, text: str | bytes, age_s: float = 0.0) -> Path:
    path = attempt_folder(run_dir, attempt) / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (1.7e9 - age_s, 1.7e9 - age_s))
    return path


def tell(run_dir: Path, facts: Sequence[tuple[float, Fact]]) -> None:
    with take_run(run_dir) as session:
        for when, fact in facts:
            session.journal.append(at(when), [fact], session.epoch)


def end_run(run_dir: Path) -> None:
    tell(run_dir, told()[len(told(42)) :])


def lines(run_dir: Path, *words: str) -> list[str]:
    done = CliRunner().invoke(app, ["logs", str(run_dir), *words])
    assert done.exit_code == 0, done.exception
    return done.stdout.splitlines()


def follow(query: LogQuery, *moments: Callable[[], object]) -> list[LogLine]:
    """Each look is followed by one of the moments; the last of them must end the run."""
    left = list(moments)
    return list(read_logs(query, lambda: left.pop(0)()))


def test_the_newest_attempt_with_whose_line_it_is_the_last_written_at_the_end(run_dir: Path) -> None:
    write(run_dir, 1, "rank-00000.out", "old\n")
    write(run_dir, 2, "rank-00010.out", "b1\nb2\n", age_s=5)
    write(run_dir, 2, "rank-00000.out", "a1\n", age_s=9)
    write(run_dir, 2, "rank-00000.err", "warned\n", age_s=1)
    write(run_dir, 2, "launcher.err", "torchrun says\n", age_s=7)
    write(run_dir, 2, "notes.txt", "no log\n")
    assert lines(run_dir) == [
        "rank 0   | a1", "launcher | torchrun says", "rank 10  | b1", "rank 10  | b2", "rank 0   | warned",
    ]  # fmt: skip
    assert lines(run_dir, "--attempt", "1") == ["rank 0 | old"]
    assert lines(run_dir, "--rank", "10", "--tail", "1") == ["b2"]
    assert lines(run_dir, "--rank", "10", "--rank", "0", "--tail", "1") == ["rank 0  | a1", "rank 10 | b2", "rank 0  | warned"]
    assert lines(run_dir, "--tail", "0") == []


def test_ranks_that_have_no_log_are_named(run_dir: Path) -> None:
    write(run_dir, 2, "rank-00000.out", "a\n")
    for rank in (0, 1, 2):
        beat(run_dir, 2, rank, 3, "data")
    assert lines(run_dir)[0] == "[sentinel] attempt 2: no log of ranks 1, 2: what they print goes elsewhere"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rank", "7"), "--rank 7: attempt 2 of .* has logs of rank 0"),
        (("--attempt", "9"), "--attempt 9: .* has attempts 1, 2"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(run_dir: Path, words: tuple[str, ...], said: str) -> None:
    write(run_dir, 1, "launcher.out", "only the launcher\n")
    write(run_dir, 2, "rank-00000.out", "a\n")
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(app, ["logs", str(run_dir), *words], catch_exceptions=False)
    with pytest.raises(UsageError, match="has no log of a rank; without --rank"):
        list(read_logs(LogQuery(run_dir, (0,), attempt=1), lambda: None))


def test_a_run_without_an_attempt_and_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no attempt was launched yet"):
        list(read_logs(LogQuery(write_run(tmp_path / "run", until=0)), lambda: None))
    with pytest.raises(UsageError, match="not the directory of a run"):
        list(read_logs(LogQuery(tmp_path), lambda: None))


def test_nothing_a_rank_prints_reaches_the_terminal_raw(run_dir: Path) -> None:
    write(run_dir, 2, "rank-00000.out", b"\x1b[31mred\x1b[0m\x1b]0;title\x07\n 10%\r 90%\r\n\xff\xfe not text\x00\n\x9b2Jgone\n")
    assert lines(run_dir) == ["rank 0 | red", "rank 0 |  90%", "rank 0 | \ufffd\ufffd not text", "rank 0 | \ufffd2Jgone"]


def test_a_huge_log_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rank-00000.out"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"line %d\n" % n for n in range(50_000)) + b"half a li")
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, place: read.append(count) or pread(fd, count, place))
    found, offset = read_tail(path, 3)
    assert found == ["line 49997", "line 49998", "line 49999"]
    assert offset == path.stat().st_size - len("half a li")
    assert sum(read) == BLOCK_BYTES


def test_more_lines_than_there_are_and_a_line_as_long_as_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.out"
    path.write_text("one\ntwo\n")
    assert read_tail(path, 100) == (["one", "two"], 8)
    path.write_text("x" * (3 << 20))
    (found,), _ = read_tail(path, 5)
    assert found.startswith("xxx")
    assert read_tail(tmp_path / "none", 5) == ([], 0)
    (tmp_path / "pipe").mkdir()
    assert read_tail(tmp_path / "pipe", 5) == ([], 0)


def test_a_log_that_was_cut_says_so_and_what_came_before(run_dir: Path) -> None:
    path = write(run_dir, 2, "rank-00000.out", "".join(f"line {n}\n" for n in range(1000)))
    LogCap(path.parent, cap_bytes=100, head_bytes=20, tail_bytes=30).keep(0.0)
    write(run_dir, 2, "rank-00000.out", "after the cut\n")
    found = lines(run_dir, "--rank", "0", "--tail", "4")
    assert found[:2] == ["line 998", "line 999"]
    assert found[2].startswith("[sentinel cut this log at ")
    assert found[3] == "after the cut"


def test_it_follows_what_comes_across_a_relaunch_to_the_end_of_the_run(run_dir: Path) -> None:
    write(run_dir, 2, "rank-00000.out", "a1\nhalf")
    said = follow(
        LogQuery(run_dir, follow=True),
        lambda: (write(run_dir, 2, "rank-00000.out", " a line\na3\n"), write(run_dir, 2, "rank-00001.err", "b1\n")),
        lambda: (
            write(run_dir, 2, "rank-00000.out", "last words"),
            tell(run_dir, told(91.5)[len(told(42)) :]),
            write(run_dir, 3, "rank-00000.out", "c1\n"),
        ),
        lambda: (write(run_dir, 3, "rank-00000.out", "c2\nno newline"), tell(run_dir, told()[len(told(91.5)) :])),
    )
    assert [line.text for line in said] == [
        "rank 0 | a1", "rank 0 | half a line", "rank 0 | a3", "rank 1 | b1", "rank 0 | last words", "attempt 3 is launched",
        "rank 0 | c1", "rank 0 | c2", "rank 0 | no newline",
    ]  # fmt: skip
    assert [line.text for line in said if line.is_note] == ["attempt 3 is launched"]


def test_a_rank_that_has_no_log_yet_is_waited_for(run_dir: Path) -> None:
    write(run_dir, 2, "launcher.out", "x\n")
    said = follow(
        LogQuery(run_dir, ranks=(1,), follow=True),
        lambda: write(run_dir, 2, "rank-00001.out", "here\n"),
        lambda: end_run(run_dir),
    )
    assert [line.text for line in said] == ["attempt 2: no log of rank 1 yet", "here"]


def test_a_named_attempt_is_followed_to_its_own_end(run_dir: Path) -> None:
    write(run_dir, 2, "launcher.out", "x\n")
    done = attempt_folder(run_dir, 2) / "exit.json"
    said = follow(
        LogQuery(run_dir, attempt=2, follow=True),
        lambda: (write(run_dir, 2, "launcher.out", "y\n"), done.write_text("{}"), write(run_dir, 3, "launcher.out", "z\n")),
    )
    assert [line.text for line in said] == ["launcher | x", "launcher | y"]


def test_a_log_cut_while_it_is_followed_goes_on_with_the_note(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.out"
    path.write_text("one\n" * 100)
    reader = LogFollower(LogFile(0, path))
    assert len(list(reader.read())) == 100
    LogCap(tmp_path, cap_bytes=100, head_bytes=20, tail_bytes=30).keep(0.0)
    with path.open("a") as file:
        file.write("two\n")
    note, line = reader.read()
    assert note.startswith("[sentinel cut this log at 400 bytes")
    assert line == "two"


def test_a_log_that_was_not_opened_for_appending_shows_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "launcher.out"
    path.write_bytes(b"\0" * 100_000 + b"goes on\n" + b"\0" * 10 + b"\nlast\n")
    assert read_tail(path, 10)[0] == ["goes on", "last"]


def test_ctrl_c_ends_it_without_a_traceback(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run_dir, 2, "launcher.out", "x\n")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sentinel.clock.SystemClock.wait", interrupt)
    out = io.StringIO()
    with redirect_stdout(out):
        done = CliRunner().invoke(app, ["logs", str(run_dir), "-f"])
    assert done.exit_code == 130
