"""The first rows of `sentinel status`, read by somebody who was woken: what broke, what trains, what follows, what to do; and the
number that a monitor reads instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.demo import closing_words
from sentinel.cli.root import app
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.incidents import IncidentState, Outcome, Remedy
from sentinel.report.chronicle.write import chronicle_text
from sentinel.report.html.writing import run_report
from sentinel.report.needs_text import need_rows
from sentinel.report.reading import read_incidents, read_run, read_status
from sentinel.report.standing import FAILED, UNKNOWN, WAITS, WELL
from sentinel.report.summary import report_text
from sentinel.report.text import incidents_text, status_text
from tests.unit.told_run import Facts, at, told, write_run

RUNG = "rung 4 of playbook numeric calls a person"
RAISED = f.PageRaised(2, "critical", "demo: spike", "text", reason=RUNG)


def failed() -> Facts:
    """The told run, whose second repair fails as well."""
    exhausted = f.IncidentMoved(2, IncidentState.EXHAUSTED, RUNG)
    dead = f.AttemptEnded(3, "stopped", "stop was requested", 384, at(104))
    judged = f.RungJudged(2, Outcome.FAILED, "the same again: loss 8.1")
    return [*told(104), (105, judged), (105, exhausted), (105, RAISED), (106, dead), (106, f.RunEnded("failed", RUNG))]


def stopped(*more: f.Fact) -> Facts:
    """A person was called, and then the run was stopped."""
    ended = f.AttemptEnded(3, "stopped", "stop was requested", 384, at(104))
    between = [(105.5, fact) for fact in more]
    return [*told(104), (105, RAISED), *between, (106, ended), (106, f.RunEnded("stopped", "by SIGTERM"))]


def rows(run_dir: Path, count: int) -> list[str]:
    return status_text(read_status(run_dir)).splitlines()[:count]


def code(run_dir: Path) -> int:
    return CliRunner().invoke(app, ["status", "--exit-code", "--json", str(run_dir)]).exit_code


def test_a_run_that_failed_says_what_broke_whether_it_trains_what_follows_and_what_to_do(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", facts=failed())
    first = rows(run_dir, 10)
    assert [line.split("  ", 1)[0] for line in first[:7]] == ["run", "state", "broke", "tried", "trains", "next", "do"]
    assert first[1].split() == ["state", "failed"], "which rung gave up is no cause"
    assert first[2].endswith("The run has failed: spike: loss 8.6 over 2.2")
    assert first[3].endswith("2 repairs were tried; the last failed: the same again: loss 8.1")
    assert first[4].endswith("Nothing of it trains now.")
    assert first[5].endswith("the run has failed: nothing trains until you start it again")
    assert first[6].split()[1:5] == ["sentinel", "ack", "2", str(run_dir)]
    assert f"sentinel run --policy demo --run-dir {run_dir}" in first[7]
    assert code(run_dir) == FAILED


def test_the_document_has_the_same_sentences(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", facts=failed())
    printed = CliRunner().invoke(app, ["status", "--json", str(run_dir)])
    needs = json.loads(printed.stdout)["needs"]
    assert (needs["cause"], needs["trains"]) == ("spike: loss 8.6 over 2.2", "Nothing of it trains now.")
    assert all(needs[key] in status_text(read_status(run_dir)) for key in ("head", "cause", "tried", "trains"))


def test_reports_name_the_cause_too(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", facts=failed())
    run = read_run(run_dir)
    cause = "spike: loss 8.6 over 2.2"
    assert f"- cause: {cause}\n- ended: {RUNG}" in report_text(run_dir, run.state, run.now_s)
    assert f"- stands: failed: {cause}" in chronicle_text(run_dir)
    assert f"<p>{cause}</p>" in run_report(run_dir)
    assert f"Run demo: failed ({cause})" in closing_words(run_dir)


def test_a_call_that_nobody_has_answered_outlives_the_run(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", facts=stopped())
    assert code(run_dir) == WAITS
    text = status_text(read_status(run_dir))
    assert "incident 2, spike, repair on probation: loss 8.6 over 2.2" in text
    assert f"sentinel ack 2 {run_dir}" in text
    seen = f.RequestAnswered("1", "ann", w.Acknowledge(2), True, "noted")
    assert code(write_run(tmp_path / "seen", facts=stopped(seen))) == WELL


def test_a_run_that_nobody_watches_says_who_can_and_how(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    first = rows(run_dir, 7)
    assert first[2].endswith("Nobody watches this run: its supervisor is gone")
    assert first[4].endswith("nothing is repaired until `sentinel run` is started again")
    assert [f"sentinel run --policy demo --run-dir {run_dir}" in first[5], f"sentinel stop {run_dir}" in first[6]] == [True, True]
    assert code(run_dir) == UNKNOWN


def test_a_run_that_is_well_asks_for_nothing(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    assert rows(run_dir, 3)[2].split(None, 1) == ["do", "nothing is asked of you"]
    assert code(run_dir) == WELL


@pytest.mark.parametrize("state", ["unobserved", "unseen"])
def test_of_an_end_that_nobody_saw_nobody_says_that_all_is_well(state: str) -> None:
    (row,) = need_rows({"state": state, "needs": None, "standing": []})
    assert row == ("do", "whether anything is asked of you is not known: `sentinel doctor` says what is seen")


@pytest.mark.parametrize("count", [1, 3])
def test_what_follows_for_many_incidents_alike_is_said_once(count: int) -> None:
    answers = [{"command": "ack N", "what": "seen"}, {"command": "show N", "what": "story"}]
    standing = [
        {"incident": n, "kind": "spike", "stands": "open", "reason": f"loss {n}", "waits": n == 1,
         "next": ["the run was stopped"], "answers": [one | {"command": one["command"].replace("N", str(n))} for one in answers]}
        for n in range(1, count + 1)
    ]  # fmt: skip
    found = need_rows({"state": "stopped", "needs": None, "standing": standing})
    assert next(words for label, words in found if label == "broke") == "incident 1, spike, open: loss 1", "who waits comes first"
    assert [words for label, words in found if label == "next"] == ["the run was stopped"]
    commands = [words.split("  ")[0] for label, words in found[count + 1 :]]
    assert commands == ["ack 1", "show 1", *(f"ack {n}" for n in range(count, 1, -1))]


def test_a_reason_that_is_the_choice_itself_is_said_once(tmp_path: Path) -> None:
    """`rung 4 of playbook numeric calls a person`: chosen for that, and paged for that."""
    paged = (106, f.RungTaken(2, Remedy(3, ("page", "then"), RUNG), False, 384))
    judged = (106, f.RungJudged(2, Outcome.PAGED, RUNG))
    run_dir = write_run(tmp_path / "run", facts=[*told(104), paged, judged])
    story = incidents_text(read_incidents(run_dir))
    assert f"  rung 4 (page): {RUNG}\n    paged" in story
    assert f"paged: {RUNG}" not in story
    assert f"page: {RUNG} → paged\n" in chronicle_text(run_dir)


def test_a_page_says_as_well_that_nothing_is_asked_of_who_looks(tmp_path: Path) -> None:
    """Of a run that was repaired in the night, silence would leave it to be guessed."""
    assert read_status(write_run(tmp_path / "well", until=100))["needs"] is not None, "nobody watches it"
    assert read_status(write_run(tmp_path / "over"))["nothing_asked"] == "nothing is asked of you"
    assert read_status(write_run(tmp_path / "run", facts=failed()))["nothing_asked"] == ""
