"""Plain lines: everything a person cares about once, in order, and nothing that is only for the journal."""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentinel.model import facts as f
from sentinel.model.facts import Entry
from sentinel.model.state import RunState
from sentinel.terminal.plain import PlainNarrator
from sentinel.terminal.words import describe
from tests.unit.told_run import at, state_of, step, tell, told, write_stream


def lines_of(run_dir: Path | None = None, until: float = 1e9) -> list[str]:
    out = io.StringIO()
    narrator = PlainNarrator(run_dir, out)
    tell(narrator, until)
    narrator.close()
    return out.getvalue().splitlines()


def test_the_whole_story_is_told_in_order() -> None:
    story = [
        "run demo: policy demo",
        "attempt 1 launched from scratch",
        "attempt 1 receipt: 2 ranks, stands at step 0",
        "attempt 1 first step: 1, 4.5 s after the launch",
        "finding spike (info): a hard batch",
        "attempt 1 crashed at step 132",
        "INCIDENT 1 crash (critical), at step 132: rank 1 was killed",
        "incident 1 rung 1: resume from the checkpoint of step 100",
        "32 steps will be trained again",
        "attempt 2 launched from the checkpoint of step 100",
        "incident 1 repair on probation",
        "incident 1: new ground at step 133, 12 s after the fault showed",
        "incident 1 remedy worked",
        "incident 1 RECOVERED",
        "INCIDENT 2 spike (warning), onset step 379, seen at step 380: loss 8.6 over 2.2",
        "incident 2 rung 1: patience",
        "incident 2 remedy failed: above its band for 4 steps",
        "incident 2 rung 2: roll back to step 350; skip samples",
        "end every process of attempt 2",
        "attempt 3 launched from the checkpoint of step 350",
        "incident 2 RECOVERED: loss within 2%",
        "run finished: the trainer finished at step 600",
    ]
    lines = iter(lines_of())
    for expected in story:
        assert any(expected in line for line in lines), f"missing, or out of order: {expected}"


def test_every_line_begins_with_the_elapsed_time_and_is_one_line() -> None:
    lines = lines_of()
    assert lines[0].startswith("   0:00  run demo")
    assert lines[-1].startswith("   2:30  run finished")
    assert all(line[7:9] == "  " for line in lines)


def test_an_incident_says_its_reason_once() -> None:
    assert sum("rank 1 was killed" in line for line in lines_of(until=31)) == 1


def test_what_only_the_journal_needs_is_not_told() -> None:
    text = "\n".join(lines_of())
    assert "SettingsInForce(" not in text
    assert "start/1" not in text
    assert len(text.splitlines()) < len(told())


def test_what_a_source_remarks_is_told() -> None:
    line = describe(f.Noted(f.ABOUT_SOURCE, "metrics: 1 damaged line(s) left out"), 0.0, RunState())
    assert line is not None
    assert line.text == "source: metrics: 1 damaged line(s) left out"


def test_progress_comes_at_every_interval_of_steps_with_the_total(tmp_path: Path) -> None:
    write_stream(tmp_path, 1, [1])
    out = io.StringIO()
    narrator = PlainNarrator(tmp_path, out, every_steps=50)
    engine = tell(narrator, until=5)
    for number in range(1, 102):
        narrator.step(step(number, loss=2.431, grad_norm=0.71))
        narrator.turn(at(5 + number / 100), engine)
    narrator.close()
    progress = [line for line in out.getvalue().splitlines() if "  step " in line]
    assert len(progress) == 2
    assert "step 50 of 600  loss 2.431  grad norm 0.71  goodput" in progress[0]


def test_a_slow_run_is_told_after_ten_seconds() -> None:
    out = io.StringIO()
    narrator = PlainNarrator(None, out)
    engine = tell(narrator, until=5)
    narrator.turn(at(5), engine)
    for number, when in ((1, 6), (2, 14), (3, 16), (4, 17)):
        narrator.step(step(number))
        narrator.turn(at(when), engine)
    narrator.close()
    assert ["step 3" in line for line in out.getvalue().splitlines() if "  step " in line] == [True]


def test_a_backlog_is_one_line_and_a_dead_attempt_makes_no_progress() -> None:
    out = io.StringIO()
    narrator = PlainNarrator(None, out)
    engine = tell(narrator, until=5)
    for number in range(1, 1001):
        narrator.step(step(number))
    narrator.turn(at(6), engine)
    narrator.turn(at(60), engine)
    narrator.step(step(1001))
    narrator.turn(at(90), SimpleNamespace(state=state_of(told(30.5)), detectors=engine.detectors))
    narrator.close()
    assert [line.split()[2] for line in out.getvalue().splitlines() if "  step " in line] == ["1000"]


def test_a_loss_that_is_no_number_is_shown() -> None:
    out = io.StringIO()
    narrator = PlainNarrator(None, out, every_steps=1)
    engine = tell(narrator, until=5)
    narrator.step(step(2, loss=float("nan")))
    narrator.turn(at(6), engine)
    narrator.close()
    assert "loss nan" in out.getvalue()


def test_a_reader_that_went_away_does_not_disturb_the_run() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as out:  # closing the file object tries to write once more
        narrator = PlainNarrator(None, out)
        tell(narrator)
        narrator.close()
        narrator.close()


def test_a_reader_that_stands_still_does_not_stop_the_loop(monkeypatch) -> None:
    monkeypatch.setattr("sentinel.terminal.plain.CLOSE_S", 0.01)
    let_go = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            let_go.wait(60)
            return super().write(text)

    out = Stuck()
    narrator = PlainNarrator(None, out)
    tell(narrator)  # returns although nothing can be written
    narrator.close()
    assert out.getvalue() == ""
    let_go.set()


def say(out: io.TextIOBase, reason: str) -> None:
    narrator = PlainNarrator(None, out)
    engine = tell(narrator, until=5)
    for fact in (f.Held(reason=reason), f.Held(reason="then something else")):
        narrator.facts([Entry(99, at(6), 1, fact)], engine)
    narrator.close()


def test_what_a_reason_quotes_neither_moves_the_cursor_nor_makes_a_line_of_its_own() -> None:
    out = io.StringIO()
    say(out, "rank 1 said \x1b]0;mine\x07\x1b[2Jdone\n   0:09  run finished: all is well")
    (line,) = [line for line in out.getvalue().splitlines() if "rank 1 said" in line]
    assert line.endswith("HELD for a person: rank 1 said done    0:09  run finished: all is well")


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", r"8 \u2192 9"), ("utf-8", "8 → 9")])
def test_a_word_that_the_output_cannot_show_does_not_end_the_telling(encoding: str, shown: str) -> None:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding, newline="\n")
    say(out, "loss 8 → 9 \ud800")
    lines = written.getvalue().decode(encoding).splitlines()
    assert [line.partition("person: ")[2] for line in lines[-2:]] == [f"loss {shown} ?", "then something else"]
