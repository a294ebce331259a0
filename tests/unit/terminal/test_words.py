"""What goes between sentinel and people, in the words of the views."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.actions import SendPage, Stage
from sentinel.model.incidents import IncidentState, Outcome, Remedy, Try
from sentinel.model.state import RunState
from sentinel.terminal.words import describe, page_words
from tests.unit.told_run import at, state_of, told

PAGE = ("page/4/1/x/phone", 4, "critical", "big: spike since step 71", "the case")


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("trigger", "page a person on phone (critical): big: spike since step 71"),
        ("update", "bring the page of incident 4 up to date on phone"),
        ("acknowledge", "tell on phone that incident 4 is acknowledged"),
        ("resolve", "tell on phone that incident 4 needs nobody any more"),
        ("message", "tell on phone: big: spike since step 71"),
    ],
)
def test_every_stage_of_a_page_has_its_words(stage: Stage, words: str) -> None:
    assert page_words(SendPage(*PAGE, stage=stage, route="phone")) == words  # type: ignore[arg-type]


def test_a_page_of_an_older_journal_names_no_route() -> None:
    assert page_words(SendPage(*PAGE)) == "page a person (critical): big: spike since step 71"  # type: ignore[arg-type]


def said(fact: f.Fact) -> str:
    line = describe(fact, 0.0, RunState())
    return "" if line is None else line.text


def test_a_page_is_told_when_it_is_raised_changed_and_resolved() -> None:
    assert said(f.PageRaised(4, "critical", "big: spike", "x")) == "incident 4: A PERSON IS NEEDED (critical): big: spike"
    assert "says something else now" in said(f.PageRaised(4, "critical", "big: spike", "x", anew=False))
    assert said(f.PageResolved(4, "it has recovered", "ada")) == "incident 4: its page is resolved: it has recovered (by ada)"


def test_a_note_is_told_as_it_was_written() -> None:
    assert said(f.RequestAnswered("1", "ada@desk", w.Remark("we go on"), True, "noted")) == "note by ada@desk: we go on"
    assert said(f.RequestAnswered("2", "ada", w.Resolve(4), True, "ok")) == "ada asked to resolve incident 4: granted: ok"


def test_what_is_wrong_with_a_policy_file_is_told_on_one_line_without_the_lines_of_the_file() -> None:
    checked = "a.yaml:9:1: spec: 'spec' is written twice\n  spec: {\n  ^\n  remedy: keep one\nThat in force stays: mine"
    line = said(f.RequestAnswered("3", "SIGHUP", w.ApplyPolicy("a.yaml"), False, checked))
    assert line.endswith("refused: a.yaml:9:1: spec: 'spec' is written twice; remedy: keep one; That in force stays: mine")
    unpaged = "nobody could be paged so\n  route slack: SLACK_TOKEN is not set\n  route teams: no file"
    answer = said(f.RequestAnswered("4", "ada", w.ApplyPolicy("a.yaml"), False, unpaged))
    assert answer.endswith("refused: nobody could be paged so; route slack: SLACK_TOKEN is not set; route teams: no file")
    given_up = said(f.ActionAbandoned("policy/1", checked))
    assert "given up: policy/1: a.yaml:9:1: spec: 'spec' is written twice; remedy: " in given_up


def moved(*tries: Try) -> list[str]:
    """What is said of an incident that closed after these tries, and of the end of its repairs."""
    why = "structural: the same again"
    incident = replace(state_of(told(91)).incidents[-1], tries=tries, state=IncidentState.EXHAUSTED, verdict=why)
    state = replace(RunState(), incidents=(incident,))
    facts = (f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, why), f.GaveUp(incident.id, "keep_training", why))
    return [line.text for fact in facts if (line := describe(fact, 0.0, state)) is not None]


def test_the_reason_why_repairs_ended_is_told_once() -> None:
    tried = Try(Remedy(0, ("rollback",), "roll back"), at(60), 300, outcome=Outcome.FAILED)
    assert moved(tried) == [
        "incident 2 NO REPAIR IS LEFT: structural: the same again", "incident 2: out of remedies; training goes on",
    ]  # fmt: skip


def test_what_a_person_alone_is_called_for_did_not_run_out_of_repairs() -> None:
    assert moved() == ["incident 2 LEFT TO A PERSON: structural: the same again", "incident 2: training goes on"]
