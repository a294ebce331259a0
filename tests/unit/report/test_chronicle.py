"""The logbook that writes itself: what stands in it, that it is the same each time, stays readable, and that nobody can write
markup into it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import CHRONICLE_NAME, stream_path
from sentinel.errors import UsageError
from sentinel.journal.session import take_run
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.report.chronicle.effects import changes_between, effect_words
from sentinel.report.chronicle.gathering import gather
from sentinel.report.chronicle.plain import code, plain
from sentinel.report.chronicle.stories import Story, page_words
from sentinel.report.chronicle.write import chronicle_text, leave_chronicle, write_chronicle
from sentinel.report.journal_fold import JournalFold
from tests.unit.told_run import COMMAND, at, entries_of, told, write_run

DAY_S = 86_400.0
Told = Sequence[tuple[float, f.Fact]]


def write_facts(run_dir: Path, facts: Told) -> Path:
    write_run(run_dir, until=-1)
    with take_run(run_dir) as session:
        for when, moment in groupby(facts, key=lambda told: told[0]):
            session.journal.append(at(when), [fact for _, fact in moment], session.epoch)
    return run_dir


def write_losses(run_dir: Path, attempt: int, first: int, last: int, change: int, before: float, after: float) -> None:
    path = stream_path(run_dir, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    steps = range(first, last + 1)
    values = [{"kind": "step", "step": n, "loss": before if n < change else after, "grad_norm": 0.5} for n in steps]
    path.write_text("".join(json.dumps(line) + "\n" for line in values))


def begun() -> list[tuple[float, f.Fact]]:
    return told(24)


def marks_of(text: str) -> set[str]:
    """Every kind of markup a reader of Markdown finds."""
    found: set[str] = set()
    pending = list(MarkdownIt("commonmark", {"html": True}).enable("table").parse(text))
    while pending:
        token = pending.pop()
        found.add(token.type)
        pending += token.children or []
    return found


def test_a_run_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    write_losses(run_dir, 2, 101, 384, 379, 2.2, 8.6)
    write_losses(run_dir, 3, 351, 600, 0, 0.0, 2.1)
    text = CliRunner().invoke(app, ["chronicle", str(run_dir)]).stdout
    for part in (
        "# Chronicle of demo",
        "- begun: 1970-01-12 13:46:40Z",
        "- stands: finished: the trainer finished at step 600",
        "- command: `python3 -m trainer --set schedule.steps=600`",
        "- 3 attempts, 2 incidents: 2 recovered, for 0 a person was called",
        "## 1970-01-12: steps 0 to 600, 2 incidents, goodput",
        "- 13:46:40 · step 0 · **Run begun**: demo",
        "It trained steps 1 to 132, of which those after 100 were abandoned; crashed: rank 1 was killed",
        "**Incident 1: crash** (critical): recovered in 12 s, 32 steps lost",
        "**Incident 2: spike** (warning), onset step 379: recovered in 14 s, 34 steps lost",
        "Try 1, wait: patience: wait up to 40 steps → failed: above its band for 4 steps",
        "Try 2, rollback+skip: roll back to step 350; skip samples → worked: loss within 2%",
        "Settings from here: 736 more samples left out",
        "medians over 50 steps before and 50 after: loss 2.2 → 2.1, grad norm 0.5 → 0.5",
        "**Run finished**: the trainer finished at step 600",
        "Besides: 2 checkpoints committed, 1 finding that opened nothing.",
        "| training |",
    ):
        assert part in text, part


def test_the_same_journal_and_streams_give_the_same_page(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=100)
    out = tmp_path / "log.md"
    done = CliRunner().invoke(app, ["chronicle", str(run_dir), "--out", str(out)])
    assert done.exit_code == 0
    assert out.read_text() == chronicle_text(run_dir) == chronicle_text(run_dir)
    assert "- stands: probation as of the last entry" in out.read_text()


def test_the_supervisor_leaves_one_and_survives_that_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = write_run(tmp_path / "run")
    leave_chronicle(run_dir)
    assert (run_dir / CHRONICLE_NAME).read_text() == chronicle_text(run_dir)
    (run_dir / CHRONICLE_NAME).unlink()
    (run_dir / CHRONICLE_NAME).mkdir()
    leave_chronicle(run_dir)
    assert "the chronicle cannot be written" in capsys.readouterr().err


def test_a_bug_in_the_logbook_costs_the_logbook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sentinel.report.chronicle.write.chronicle_text", lambda run_dir: 1 / 0)
    leave_chronicle(tmp_path)
    assert "the chronicle cannot be written: ZeroDivisionError" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_and_a_run_without_an_entry(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    with pytest.raises(UsageError, match="choose another --out"):
        write_chronicle(run_dir, run_dir / "run.json" / "x.md")
    with pytest.raises(UsageError, match="nothing is recorded yet"):
        chronicle_text(write_run(tmp_path / "empty", until=-1))


def test_a_change_while_it_runs_is_told_with_what_it_did(tmp_path: Path) -> None:
    before, after = SettingsInForce("ov-1"), SettingsInForce("ov-9", None, lr_scale=0.5, clip_norm=0.3)
    asked = w.ChangeSettings(after, ("lr_scale", "clip_norm"))
    facts = [
        *begun(),
        (30, f.RequestAnswered("i", "ada@desk", asked, True, "it is being written")),
        (30, f.ActionDecided(a.WriteOverrides("live/1", 1, after, 110, before))),
        (31, f.ActionConfirmed("live/1")),
        (32, f.OverridesAnswered(1, "ov-9", 112)),
        (40, f.SettingLapsed(1, ("lr_scale",), 150, after, "its steps are over")),
        (50, f.LapseJudged(("lr_scale",), "proven", "healthy for 60 steps")),
    ]
    run_dir = write_facts(tmp_path / "run", facts)
    write_losses(run_dir, 1, 1, 200, 112, 2.5, 2.0)
    text = chronicle_text(run_dir)
    assert "ada\\@desk asked to change lr_scale, clip_norm: granted: it is being written" in text
    changed = "learning rate as configured → 0.5x, clip norm as configured → 0.3"
    assert f"**Settings changed while it ran**, from step 112: {changed}" in text
    assert "medians over 50 steps before and 50 after: loss 2.5 → 2, grad norm 0.5 → 0.5" in text
    assert "**Setting taken back** at step 150: learning rate 0.5x → as configured: its steps are over" in text
    assert "The lapse of lr_scale proven: healthy for 60 steps" in text


def test_pages_and_who_answered_them_stand_with_the_incident(tmp_path: Path) -> None:
    page = a.SendPage("page/1/1/trigger/pager", 1, "critical", "t", "x", route="pager")
    again = a.SendPage("page/1/2/trigger/mail", 1, "critical", "t", "x", route="mail")
    late = a.SendPage("page/1/2/trigger/pager", 1, "critical", "t", "x", route="pager")
    facts = [
        *told(31),
        (100, f.ActionDecided(page)),
        (101, f.ActionAbandoned(page.key, "401: the key is wrong")),
        (110, f.ActionDecided(again)),
        (111, f.ActionConfirmed(again.key)),
        (112, f.ActionDecided(late)),
        (113, f.ActionAbandoned(late.key, "no longer wanted, acknowledged by ada", withdrawn=True)),
        (280, f.RequestAnswered("i", "ada", w.Acknowledge(1), True, "seen")),
    ]
    text = chronicle_text(write_facts(tmp_path / "run", facts))
    assert "A person was called at 1970-01-12 13:48:20Z on mail, pager (3 trigger); 1 delivery given up" in text
    assert "401: the key is wrong; acknowledged by ada, 3 min after" in text
    assert "for 1 a person was called" in text


def test_a_message_that_all_is_well_calls_nobody_and_a_settled_page_says_why() -> None:
    (_, opened), *_ = [one for one in told() if isinstance(one[1], f.IncidentOpened)]
    story = Story(opened.incident, at(0))
    story.take(at(1), f.ActionDecided(a.SendPage("page/1/1/message/chat", 1, "info", "t", "x", stage="message", route="chat")))
    assert not story.needed_a_person
    assert page_words(story, str) == "People were told on chat (1 message)"
    story.take(at(2), f.ActionDecided(a.SendPage("page/1/2/trigger/pager", 1, "critical", "t", "x", route="pager")))
    story.take(at(9), f.PageResolved(1, "it has recovered", "ada"))
    assert page_words(story, lambda at_s: "NOON").startswith("A person was called at NOON on chat, pager (1 message, 1 trigger)")
    assert page_words(story, str).endswith("nobody acknowledged it; over: it has recovered by ada")


def test_a_note_of_a_person_is_their_own_entry(tmp_path: Path) -> None:
    noted = f.RequestAnswered("i", "ada", w.Remark("new data from here on"), True, "written down")
    text = chronicle_text(write_facts(tmp_path / "run", [*begun(), (100, noted)]))
    assert "**Note by ada**: new data from here on" in text


def test_quiet_days_are_one_line_together_and_each_other_day_has_its_own(tmp_path: Path) -> None:
    facts: list[tuple[float, f.Fact]] = [*begun()]
    facts += [(day * DAY_S, f.CheckpointCommitted(1, 100 + day, "p", 1)) for day in range(1, 20)]
    facts += [(20 * DAY_S, f.StopAsked("ada")), (20 * DAY_S + 60, f.AttemptEnded(1, "stopped", "asked", 130, at(20 * DAY_S)))]
    text = chronicle_text(write_facts(tmp_path / "run", facts))
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Day by day",
        "## 1970-01-12: steps 0 to 100, goodput 100%",
        "## 1970-01-13 to 1970-01-31: quiet",
        "## 1970-02-01: steps 119 to 130, goodput 100%",
        "## What the time went into",
    ]
    assert "steps 100 to 119, 19 checkpoints, goodput 100%." in text


def month(incidents: int, days: int = 30) -> list[tuple[float, f.Fact]]:
    """Crash after crash, each repaired by a resume, and one in fifty by nobody."""
    facts: list[tuple[float, f.Fact]] = [*begun()]
    for number in range(1, incidents + 1):
        when, step = 100 + number * days * 0.5 * DAY_S / incidents, 100 + 10 * number
        place = (number, None, step, step, at(when), at(when))
        crash = Incident(number, Kind.CRASH, "critical", "Crash", "restart", *place, "killed")
        attempt = number + 1
        resume = ResumePoint(step - 5, "p", "aa")
        facts += [
            (when, f.AttemptEnded(number, "crashed", "killed", step, at(when))),
            (when, f.IncidentOpened(crash)),
            (when, f.RungTaken(number, Remedy(0, ("resume",), "resume from the newest", step - 5), True, step)),
            (when, f.StepsLost(number, 5)),
            (when + 1, f.AttemptLaunched(attempt, resume, SettingsInForce(), "resume from the newest")),
            (when + 5, f.ReceiptSeen(attempt, step - 5, 2)),
            (when + 6, f.FirstStep(attempt, step - 4)),
            (when + 60, f.CheckpointCommitted(attempt, step + 5, "p", 1)),
            (when + 60, f.Restored(number, step + 1)),
            (when + 90, f.RungJudged(number, Outcome.WORKED, "healthy")),
            (when + 90, f.IncidentMoved(number, IncidentState.RECOVERED, "healthy")),
        ]
        if number % 50 == 0:
            facts.append((when + 91, f.ActionDecided(a.SendPage(f"page/{number}", number, "critical", "t", "x"))))
    return facts


def test_a_month_with_five_hundred_incidents_stays_readable() -> None:
    found = gather(JournalFold(Path()).fold(entries_of(month(500, days=60))))
    assert len(found.stories) == 500
    assert sum(day.counts["incidents"] for day in found.days.values()) == 500
    assert abs(sum(day.whole_s for day in found.days.values()) - (found.last_s - at(0))) < 1.0


def test_on_a_day_of_many_incidents_those_repaired_alone_are_a_table(tmp_path: Path) -> None:
    text = chronicle_text(write_facts(tmp_path / "run", month(50, days=1)[:-1]))
    told_one_by_one = text.count("**Incident ")
    tabled = text.count(" crash | resume | recovered in 60 s, 5 steps lost |")
    assert (told_one_by_one, tabled) == (8, 42), "42 before midnight"
    assert "42 incidents that sentinel repaired alone:" in text
    assert "43 attempts launched (`sentinel lineage` has each)" in text
    assert len(text.splitlines()) < 150


HOSTILE = [
    "<script>alert(1)</script>", "[click](javascript:alert(1))", "![x](http://evil/x.png)", "http://evil.example",
    "`code` *bold* _it_ ~~gone~~ **x**", "| a | b |", "# head", "- item", "1. item", "> quote", "---", "&lt;b&gt; &amp;", "$x^2$",
    "\\", "\\`", "a\n\n# b\n<b>", "\x1b[31mred\x1b[0m", "```\ncode\n```", "<!-- x -->", "line\u2028break", "=====", "@all #12",
    "www.evil.example",
]  # fmt: skip
ALLOWED = {
    "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text", "text_special", "strong_open",
    "strong_close", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "code_inline", "softbreak",
    "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open",
    "th_close", "td_open", "td_close",
}  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_a_reason_holds_it_stays_text(tmp_path: Path, hostile: str) -> None:
    facts = [
        (0, f.RunCreated(hostile, (*COMMAND, hostile), "/", hostile, "d" * 64, False)),
        *begun()[1:],
        (30, f.RequestAnswered("i", hostile, w.Readmit(hostile), True, hostile)),
        (31, f.Held(hostile)),
        (32, f.RunEnded("failed", hostile)),
    ]
    text = chronicle_text(write_facts(tmp_path / "run", facts))
    assert marks_of(text) <= ALLOWED, marks_of(text) - ALLOWED
    assert "\x1b" not in text
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert html.count("<strong>") == 4, "the run's beginning, the attempt, the hold and the end"


@given(st.text(alphabet=st.sampled_from("a1 `*_<>[]()!#|~&$@\\-+=.:/\n\t\x1bw"), max_size=30))
def test_plain_text_reads_as_it_was_written(text: str) -> None:
    tokens = MarkdownIt("commonmark", {"html": True}).parseInline(f"x {plain(text)}")[0].children or []
    assert {token.type for token in tokens} <= {"text", "text_special"}
    shown = "".join(token.content for token in tokens)
    assert shown.split() == ["x", *plain_words(text)]
    inline = MarkdownIt("commonmark").parseInline(f"x {code(text)} y")[0].children or []
    assert [token.type for token in inline if token.type != "text"] == ["code_inline"]


def plain_words(text: str) -> list[str]:
    from sentinel.terminal.clean import clean

    return clean(" ".join(text.split())).split()


def test_what_changed_between_two_settings_in_words() -> None:
    old = SettingsInForce(lr_scale=0.5, betas=(0.9, 0.95), reset_optimizer=False)
    new = SettingsInForce(clip_norm=0.3, betas=(0.9, 0.98), reset_optimizer=True, data_seed=7)
    assert changes_between(old, new) == [
        "learning rate 0.5x → as configured", "clip norm as configured → 0.3", "betas 0.9 0.95 → 0.9 0.98",
        "data seed the configured order → 7", "reset optimizer as configured → yes",
    ]  # fmt: skip
    assert changes_between(old, old) == []


def test_an_effect_says_how_many_steps_it_saw_and_which_were_no_number(tmp_path: Path) -> None:
    write_losses(tmp_path, 1, 1, 60, 51, 2.5, float("nan"))
    words = effect_words(tmp_path, 1, 51, None)
    assert words == "medians over 50 steps before and 10 after: grad norm 0.5 → 0.5; 10 of the steps after it not finite"
    assert effect_words(tmp_path, 1, 1, None) == ""
    assert effect_words(tmp_path, 9, 51, 1) == ""
