"""The live view: what a frame shows, that it fits 80 x 24, and that the terminal is given back."""

from __future__ import annotations

import io
import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sentinel.curves.blocks import Point, columns, find_column, sparkline
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.own_needs import own_needs
from sentinel.run_files.stall import Stall
from sentinel.telemetry.gpu_sample import GpuSample
from sentinel.terminal import choose
from sentinel.terminal.document import picture_document
from sentinel.terminal.live import LiveNarrator
from sentinel.terminal.panel import Picture, draw
from sentinel.terminal.plain import PlainNarrator
from sentinel.terminal.words import Line
from tests.unit.report.test_needs_text import failed
from tests.unit.run_files.test_heartbeats import beat
from tests.unit.told_run import at, state_of, step, tell, told, write_run, write_stream

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def frame(
    until: float, *, width: int = 80, blocks: bool = True, points: tuple[Point, ...] = (), total: int | None = 600
) -> list[str]:
    facts = told(until)
    lines = tuple(("0:01", Line(f"event {n} " + "long " * 40)) for n in range(6))
    picture = Picture(state_of(facts), at(min(until, 150)), total, points, lines, 0.2, blocks)
    out = io.StringIO()
    Console(file=out, width=width, height=24, force_terminal=True, color_system=None, legacy_windows=False).print(draw(picture))
    return out.getvalue().splitlines()


def points(attempt: int, first: int, losses: list[float]) -> tuple[Point, ...]:
    return tuple(Point(attempt, first + n, {"loss": loss, "grad_norm": loss / 4}) for n, loss in enumerate(losses))


@pytest.mark.parametrize("until", [0, 4, 5, 30.5, 31, 60, 91, 92, 100, 150])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_frame_fits_the_terminal_at_every_moment(until: float, width: int) -> None:
    lines = frame(until, width=width, points=points(1, 1, [2.5] * 200))
    assert len(lines) <= 22
    assert {len(line) for line in lines} == {width}


def test_a_frame_of_a_recovery_shows_incident_rung_and_the_action_under_way() -> None:
    text = "\n".join(frame(91, points=points(2, 300, [2.2] * 79 + [8.6] * 6)))
    assert "RECOVERING" in text
    assert "attempt 2" in text
    assert "2 spike open, onset step 379" in text
    assert "rung 2 (pending) roll back to step 350" in text
    assert "now: end every process of attempt 2 (1 of 2)" in text
    assert "step 384 of 600" in text


@pytest.mark.parametrize(("more", "head", "left"), [
    ({}, "TRAINING", True), ({"is_watched": False}, "LAST SEEN TRAINING", False), ({"total": 2**62}, "TRAINING", False),
])  # fmt: skip
def test_nothing_is_promised_of_a_run_that_nobody_watches_nor_of_a_total_that_is_no_end(
    more: dict[str, Any], head: str, left: bool
) -> None:
    picture = replace(Picture(state_of(told(20)), at(20), 600, points(1, 1, [2.5] * 9), (), 0.2, False), **more)
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(draw(picture))
    assert head in out.getvalue()
    assert ("LAST SEEN" in out.getvalue()) == ("LAST SEEN" in head)
    assert (" left" in out.getvalue()) == left


def test_goodput_stands_still_with_the_run() -> None:
    ticking = Picture(state_of(told(20)), at(120), 600, (), (), 0.2, False)
    for still in (replace(ticking, stall=Stall(at(20), 0.2)), replace(ticking, is_watched=False, idle_since_s=at(20))):
        assert picture_document(ticking)["goodput"] == pytest.approx(116 / 120, abs=1e-3)
        assert picture_document(still)["goodput"] == pytest.approx(16 / 120, abs=1e-3)


def test_a_delayed_launch_says_in_how_many_seconds() -> None:
    assert any("now: start attempt 3 from the checkpoint of step 350 in 1 s (2 of 2)" in line for line in frame(91.5))


def test_the_onset_is_marked_below_its_column() -> None:
    lines = frame(90.2, points=points(2, 370, [2.2] * 9 + [8.6] * 6))
    loss = next(line for line in lines if "loss " in line)
    mark = next(line for line in lines if "onset 379" in line and "^" in line and "spike" not in line)
    assert loss[mark.index("^")] == "█"
    assert loss[mark.index("^") - 1] == "▁"


def test_a_mark_near_the_edge_is_written_to_the_left_of_its_column() -> None:
    lines = frame(90.2, points=points(2, 330, [2.2] * 49 + [8.6] * 6))
    loss = next(line for line in lines if "loss " in line)
    mark = next(line for line in lines if "onset 379 ^" in line)
    assert loss[mark.index("^")] == "█"


def test_a_terminal_without_block_characters_gets_ascii() -> None:
    text = "\n".join(frame(91, blocks=False, points=points(2, 300, [2.2] * 79 + [8.6] * 6)).copy())
    text = "".join(character for character in text if character != "…")  # rich's own ellipsis
    assert text.isascii()


def test_without_a_total_there_is_no_bar() -> None:
    text = "\n".join(frame(60, total=None))
    assert "━" not in text
    assert " of 600" not in text


def test_a_sparkline_shows_one_bad_step_among_many_relaunches_and_what_is_no_number() -> None:
    cells = columns(points(1, 1, [1.0] * 95 + [9.0] + [1.0] * 24), 30)
    assert len(cells) == 30
    assert sparkline(cells, "loss").count("▲") == 1
    assert sparkline(cells, "loss", "_.:-=+*#").count("^") == 1
    assert sparkline(columns(points(1, 1, [1.0, math.nan, 2.0]), 10), "loss") == "▁!█"
    both = points(1, 1, [1.0, 2.0]) + points(2, 1, [1.0, 2.0])
    assert sparkline(columns(both, 10), "loss") == "▁█|█"
    assert sparkline(columns(points(1, 1, [3.0, 3.0]), 10), "none") == "  "
    assert columns((), 10) == []


def test_a_spike_that_a_rollback_threw_away_leaves_the_curve_readable() -> None:
    """The loss was `▁▁▁▁▁█|▁▁▁` once: the scale is that of the steps the run stands on."""
    before = [2.0 + step % 3 / 10 for step in range(29)]
    spiked = points(1, 351, [*before, 60.0, 900.0, 4e3])
    lines = frame(97, points=[*spiked, *points(2, 351, [2.0 + step % 3 / 10 for step in range(29)])])
    loss = next(line for line in lines if line.lstrip("│ ").startswith("loss "))
    assert {"▁", "█", "▲"} <= set(loss), loss
    assert loss.count("▲") == 2, "three rows in two columns"
    assert "▼" not in loss


def test_an_onset_that_left_the_window_has_no_column() -> None:
    cells = columns(points(1, 100, [1.0] * 20), 10)
    assert find_column(cells, 1, 50) is None
    assert find_column(cells, 1, 100) == 0
    assert find_column(cells, 1, 119) == 9
    assert find_column(cells, 2, 105) is None


def live(tmp_path: Path) -> tuple[LiveNarrator, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, legacy_windows=False, _environ={"TERM": "xterm"})
    return LiveNarrator(tmp_path, console), out


def test_the_terminal_is_given_back_with_the_last_picture_on_it(tmp_path: Path) -> None:
    write_stream(tmp_path, 1, [1])
    narrator, out = live(tmp_path)
    try:
        engine = tell(narrator)
        narrator.step(step(600, attempt=3))
        narrator.turn(at(150), engine)
    finally:
        narrator.close()
    narrator.close()
    text = out.getvalue()
    assert HIDE_CURSOR in text
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)
    assert "FINISHED" in text
    assert "step 600 of 600" in text


def test_the_supervisors_own_view_shows_ranks_and_gpus_too(tmp_path: Path) -> None:
    for rank in (0, 1):
        beat(tmp_path, 1, rank, 40, "backward", at_s=time.time())
    narrator, out = live(tmp_path)
    choose.show_gpus(narrator, lambda: ((GpuSample(0, "d", False, "H200", busy_percent=97),), ""))
    try:
        engine = tell(narrator, until=5)
        narrator.step(step(40, attempt=1, loss=2.5, grad_norm=0.5, activation_norm=11.0, lr=6e-4))
        narrator.turn(at(6), engine)
        deadline = time.monotonic() + 30
        while not narrator._picture.ranks:
            assert time.monotonic() < deadline, "the ranks were never looked at"
            time.sleep(0.01)
    finally:
        narrator.close()
    text = out.getvalue()
    assert "2: 2 backward; step 40" in text or "rank 1    step 40" in text
    assert "GPU 0     H200, busy 97 %" in text
    assert "act. norm" in text


def test_the_supervisors_own_view_says_what_broke_and_what_to_type_as_status_does(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", facts=failed())
    state, needs = state_of(failed()), own_needs(run_dir, load_policy(shipped_policy_path("demo")))
    narrator, out = live(tmp_path)
    choose.show_needs(narrator, needs)
    narrator._picture = replace(narrator._picture, state=state, now_s=at(106))
    narrator._start()
    narrator.close()
    (document, warnings) = needs(state, at(106))
    assert document is not None
    assert warnings == ()
    text = out.getvalue()
    assert "Nothing of it trains now" in text
    assert f"do:  {document['answers'][0]['command'][:40]}" in text, "it stays on the screen when sentinel has ended"


def test_a_disk_that_fills_up_stands_in_the_supervisors_own_view(tmp_path: Path) -> None:
    narrator, out = live(tmp_path)
    choose.show_needs(narrator, lambda state, now_s: (None, ("disk: full in 2 h",)))
    narrator.turn(at(6), tell(narrator, until=5))
    narrator.close()
    assert "disk: full in 2 h" in out.getvalue()


def test_needs_that_cannot_be_told_are_not_those_of_a_while_ago(tmp_path: Path) -> None:
    def broken(state: object, now_s: float) -> object:
        raise OSError("gone")

    narrator, out = live(tmp_path)
    choose.show_needs(narrator, broken)  # type: ignore[arg-type]
    narrator.turn(at(6), tell(narrator, until=5))
    narrator.close()
    assert "what the run needs is not known here: OSError" in out.getvalue()


def test_whoever_only_prints_lines_is_told_of_no_gpus(tmp_path: Path) -> None:
    choose.show_gpus(PlainNarrator(None, io.StringIO()), lambda: ((), ""))
    choose.show_gpus(None, lambda: ((), ""))
    choose.show_needs(PlainNarrator(None, io.StringIO()), lambda state, now_s: (None, ()))


def test_the_loop_itself_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_by: list[threading.Thread] = []
    monkeypatch.setattr("sentinel.terminal.live.draw", lambda picture: drawn_by.append(threading.current_thread()) or "")
    narrator, _ = live(tmp_path)
    engine = tell(narrator, until=5)
    for number in range(1000):
        narrator.step(step(number))
        narrator.turn(at(number), engine)
    narrator.close()
    assert drawn_by.count(threading.current_thread()) <= 4  # when it is made, started and stopped


def test_closing_what_never_started_is_nothing(tmp_path: Path) -> None:
    narrator, out = live(tmp_path)
    narrator.close()
    narrator.turn(at(0), tell(PlainNarrator(None, io.StringIO())))
    assert HIDE_CURSOR not in out.getvalue()


def test_plain_without_a_terminal_and_on_a_dumb_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    narrator = choose.choose_narrator(tmp_path)
    assert isinstance(narrator, PlainNarrator)
    narrator.close()
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    narrator = choose.choose_narrator(tmp_path)
    assert isinstance(narrator, PlainNarrator)
    narrator.close()


def test_live_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    narrator = choose.choose_narrator(tmp_path)
    assert isinstance(narrator, LiveNarrator)
    narrator.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


