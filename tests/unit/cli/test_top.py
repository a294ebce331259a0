"""`sentinel top`: from the outside, with a terminal and without one."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import re
import signal
import struct
import sys
import termios
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.cli.top import TopOfRun, points_of
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.clock import SystemClock
from sentinel.journal.session import take_run
from sentinel.model.facts import RunEnded
from sentinel.report.drawn import DrawnAttempt
from sentinel.run_files.stream_lines import parse_line
from sentinel.terminal.live import POINTS_KEPT
from tests.unit.run_files.test_heartbeats import beat
from tests.unit.told_run import START_S, state_of, told, write_run, write_stream

DEADLINE_S = 60.0


def drawn(run_dir: Path, attempt: int, steps: list[int], **last: object) -> DrawnAttempt:
    write_stream(run_dir, attempt, steps, **last)
    return drawn_so_far(run_dir, attempt)


def drawn_so_far(run_dir: Path, attempt: int) -> DrawnAttempt:
    found = DrawnAttempt(run_dir, attempt)
    while found.advance(is_over=True):
        pass
    return found


def test_without_a_terminal_it_prints_once(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    write_stream(run_dir, 2, list(range(101, 385)), loss=8.6)
    beat(run_dir, 2, 0, 384, "backward")
    for words in (["top", str(run_dir)], ["top", str(run_dir), "--once"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0
        text = done.stdout
        assert "RECOVERING" in text
        assert "step 384 of 600" in text
        assert re.search(r"loss +8\.6 .*▲", text), "one row of a spike lies outside the scale"
        assert "rank" in text
        assert "Nobody watches this run: its supervisor is gone" in text
        assert "now: Nothing of it trains now; nothing is repaired until" in text, "what the journal meant to do, nobody does"
        assert "2 spike open, onset step 379" in text
        assert "GPUs" in text
        assert "\x1b" not in text


def test_a_run_that_has_ended_is_shown_as_it_ended(tmp_path: Path) -> None:
    text = CliRunner().invoke(app, ["top", str(write_run(tmp_path / "run"))]).stdout
    assert "FINISHED   2:30" in text
    assert "1970-01-12 13:46:40Z to 1970-01-12 13:49:10Z" in text
    assert "   2:30  1970-01-12 13:49:10Z  run finished" in text, "when it happened, and not when it is shown"
    assert "Nobody watches" not in text


def test_what_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["top", str(tmp_path)])
    assert "not the directory of a run" in str(done.exception)


def test_a_look_is_drawn_again_only_when_something_can_be_new(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    write_stream(run_dir, 2, [101, 102])
    watched = TopOfRun(run_dir, SystemClock(), blocks=True)
    first = watched.refresh()
    assert first is not None
    assert (first.points[-1].step, first.total) == (102, 600)
    assert watched.refresh() is None
    write_stream(run_dir, 2, [101, 102, 103])
    again = watched.refresh()
    assert again is not None
    assert again.points[-1].step == 103
    watched.close()


def test_a_journal_that_is_gone_is_said(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    watched = TopOfRun(run_dir, SystemClock(), blocks=True)
    (run_dir / JOURNAL_NAME).rename(tmp_path / "aside")
    watched._refreshed_s = -math.inf  # a refresh is due
    shown = watched.refresh()
    assert shown is not None
    assert any("older snapshot" in warning for warning in shown.warnings)
    watched.close()


def test_the_time_of_a_step_is_of_one_attempt_and_not_of_the_pause_between_two(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    (run_dir / "attempts").mkdir()
    watched = TopOfRun(run_dir, SystemClock(), blocks=True)
    said = []
    for attempt, steps in ((1, [99]), (1, [99, 100]), (2, [101]), (2, [101, 102])):
        write_stream(run_dir, attempt, steps, time_s=1000.0 * attempt + steps[-1])
        one = drawn_so_far(run_dir, attempt)
        watched._run.attempts[attempt] = one
        watched._snapshot = replace(watched._snapshot, state=state_of(told(42 if attempt == 2 else 10)))
        said.append(watched._step_time())
    assert said == [None, 1.0, None, 1.0]
    watched.close()


def test_curves_become_points_across_relaunches(tmp_path: Path) -> None:
    one, two = drawn(tmp_path, 1, [*range(1, 133)]), drawn(tmp_path, 2, [101, 102, 103], loss="NaN")
    found = points_of({1: one, 2: two})
    assert [(p.attempt, p.step) for p in found] == [(1, n) for n in range(1, 133)] + [(2, 101), (2, 102), (2, 103)]
    assert math.isnan(found[-1].values["loss"])
    assert [(p.attempt, p.step) for p in points_of({1: one, 2: two}, count=4)] == [(1, 132), (2, 101), (2, 102), (2, 103)]


def test_in_a_long_attempt_a_point_stands_for_several_steps_up_to_its_own(tmp_path: Path) -> None:
    found = points_of({1: drawn(tmp_path, 1, [*range(1, 9001)], loss=9.0)}, count=10)
    assert found[-1].step == 9000
    assert found[-1].values["loss"] == 9.0
    gaps = {b.step - a.step for a, b in pairwise(found[:-1])}
    assert gaps == {16}


class Terminal:
    """A pseudo-terminal with `sentinel top` in it."""

    def __init__(self, run_dir: Path, rows: int, columns: int) -> None:
        self.text = ""
        self._pid, self._handle = pty.fork()
        if self._pid == 0:  # the child
            os.environ |= {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
            os.execvp(sys.executable, [sys.executable, "-m", "sentinel", "top", str(run_dir)])
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """None: somebody ends it from elsewhere."""
        if keys:
            os.write(self._handle, keys)
        else:
            os.kill(self._pid, signal.SIGTERM)

    def until(self, pattern: str) -> None:
        """Read until the pattern stands in what came since the last call."""
        fresh = ""
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, fresh):
            assert time.monotonic() < deadline, f"{pattern} never came: {fresh[-3000:]!r}"
            fresh += self._read()
        self.text += fresh

    def end(self) -> int:
        """Read to the end; the exit status."""
        while more := self._read():
            self.text += more
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self) -> str:
        try:
            return os.read(self._handle, 65536).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            return ""


@pytest.mark.parametrize("key", [b"q", b"\x03", pytest.param(b"", marks=pytest.mark.slow)], ids=["q", "Ctrl-C", "SIGTERM"])
def test_on_a_terminal_it_draws_follows_a_resize_and_gives_the_terminal_back(tmp_path: Path, key: bytes) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    write_stream(run_dir, 2, list(range(101, 385)), loss=8.6)
    terminal = Terminal(run_dir, 24, 80)
    terminal.until("q leaves")
    terminal.resize(40, 120)
    terminal.until("─{110}")
    write_stream(run_dir, 2, list(range(101, 391)), loss=8.6)
    terminal.until("step 390 of 600")
    terminal.press(key)
    assert terminal.end() == (130 if key == b"\x03" else 0)
    assert terminal.text.index("\x1b[?1049h") < terminal.text.rindex("\x1b[?1049l")
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")
    assert "Traceback" not in terminal.text


@pytest.fixture
def lines_read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every line of a stream that was parsed."""
    found: list[bytes] = []

    def parse(line: bytes, attempt: int) -> object:
        found.append(line)
        return parse_line(line, attempt)

    for module in ("sentinel.report.drawn", "sentinel.run_files.stream", "sentinel.run_files.stream_end"):
        monkeypatch.setattr(f"{module}.parse_line", parse)
    return found


def test_of_a_long_run_only_what_is_shown_is_read(tmp_path: Path, lines_read: list[bytes]) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    for attempt in (1, 2):
        write_stream(run_dir, attempt, range(1, 20_001), loss=8.6)
    text = CliRunner().invoke(app, ["top", str(run_dir), "--once"]).stdout
    assert re.search(r"step 20000 of 600", text)
    assert re.search(r"loss +8\.6 .*▲", text), "one row of a spike lies outside the scale"
    assert len(lines_read) < 5000


def test_a_young_attempt_is_shown_behind_the_newest_steps_of_the_one_before(tmp_path: Path, lines_read: list[bytes]) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    write_stream(run_dir, 1, range(1, 20_001))
    path = write_stream(run_dir, 2, [101, 102])
    watched = TopOfRun(run_dir, SystemClock(), blocks=True)
    watched.catch_up()
    shown = watched.refresh()
    assert shown is not None
    wanted = [(1, step) for step in range(20_001 - POINTS_KEPT + 2, 20_001)] + [(2, 101), (2, 102)]
    assert [(point.attempt, point.step) for point in shown.points] == wanted
    assert len(lines_read) < 5000
    path.write_text('{"step": 101, "loss": 1.5}\n')  # written anew, and shorter
    watched.catch_up()
    watched._refreshed_s = -math.inf
    again = watched.refresh()
    assert again is not None
    assert again.points[-1].values == {"loss": 1.5}
    watched.close()


def test_the_time_of_a_run_that_ended_while_its_attempt_was_being_started_stands_still(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=0)
    with take_run(run_dir) as session:
        session.journal.append(START_S + 7.0, [RunEnded("stopped", "stopped by me")], session.epoch)
    watched = TopOfRun(run_dir, SystemClock(), blocks=True)
    shown = watched.refresh()
    assert shown is not None
    assert shown.now_s == START_S + 7.0
    watched.close()
