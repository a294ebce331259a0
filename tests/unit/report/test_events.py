"""`sentinel events`: the journal in words and as JSON, filtered, followed, and damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.masking import Masking
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.codec import decode_fact
from sentinel.journal.session import take_run
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.incidents import Outcome
from sentinel.report.events import event_line, incident_of, read_events
from tests.unit.told_run import at, state_of, told, write_run


def lines(run_dir: Path, *words: str) -> list[str]:
    done = CliRunner().invoke(app, ["events", str(run_dir), *words])
    assert done.exit_code == 0, done.exception
    return done.stdout.splitlines()


def test_in_words_with_the_time_of_the_run_and_utc(tmp_path: Path) -> None:
    found = lines(write_run(tmp_path / "run"))
    assert found[0] == "    0:00  1970-01-12 13:46:40Z  run demo: policy demo"
    spike = "    1:30  1970-01-12 13:48:10Z  INCIDENT 2 spike (warning), onset step 379, seen at step 380: loss 8.6 over 2.2"
    assert spike in found
    assert found[-1].endswith("run finished: the trainer finished at step 600")
    assert not any("ActionConfirmed" in line for line in found)


def test_as_json_every_entry_with_every_field(tmp_path: Path) -> None:
    found = [json.loads(line) for line in lines(write_run(tmp_path / "run"), "--json")]
    assert [one["seq"] for one in found] == list(range(1, len(told()) + 1))
    for one, (when, fact) in zip(found, told(), strict=True):
        assert (one["at_s"], one["elapsed_s"], one["kind"]) == (at(when), when, type(fact).__name__)
        assert decode_fact(one["kind"], json.dumps(one["fact"])) == fact
    assert {one["text"] is None for one in found} == {True, False}


def test_what_is_masked_is_found_out_once_and_not_for_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the whole environment: of a journal of 18,000 entries that was six of eight seconds."""
    run_dir, asked = write_run(tmp_path / "run"), []
    of = Masking.of
    monkeypatch.setattr(Masking, "of", lambda *words: (asked.append(1), of(*words))[1])
    assert len(lines(run_dir, "--json")) == len(told())
    assert len(asked) == 1


def test_since_and_incident_choose(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    assert lines(run_dir, "--since", str(len(told()) - 1)) == [lines(run_dir)[-1]]
    of_two = [json.loads(line) for line in lines(run_dir, "--json", "--incident", "2")]
    assert {one["incident"] for one in of_two} == {2}
    assert [one["kind"] for one in of_two][:3] == ["FindingRecorded", "IncidentOpened", "RungTaken"]
    refused = CliRunner().invoke(app, ["events", str(run_dir), "--incident", "99"])
    assert "there is no incident 99 (there are: 1, 2)" in str(refused.exception)


def test_it_follows_until_the_run_has_ended(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    left = [told(100)[len(told(42)) :], [], told()[len(told(100)) :]]

    def later() -> None:
        with take_run(run_dir) as session:
            for when, fact in left.pop(0):
                session.journal.append(at(when), [fact], session.epoch)

    found = [entry.fact for entry, _ in read_events(run_dir, 0, None, True, later)]
    assert found == [fact for _, fact in told()]
    assert left == []


def test_of_a_damaged_journal_comes_what_lies_before_the_damage_then_the_sentence(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    with sqlite3.connect(run_dir / JOURNAL_NAME) as connection:
        connection.execute("UPDATE facts SET body = '{' WHERE seq = 9")
    found = []
    events = read_events(run_dir, 2, None, False, lambda: None)
    with pytest.raises(JournalError, match="entry 9"):
        found.extend(entry.seq for entry, _ in events)
    assert found == list(range(3, 9))


def test_a_reason_that_quotes_a_log_cannot_drive_the_terminal() -> None:
    entry = f.Entry(1, at(3), 1, f.Held("\x1b[2J\x1b]0;owned\x07wait\nnext"))
    assert event_line(entry, state_of(told(0))) == "    0:03  1970-01-12 13:46:43Z  HELD for a person: wait next"


@pytest.mark.parametrize(
    ("fact", "number"),
    [
        (f.RungJudged(3, Outcome.WORKED, "x"), 3),
        (f.RequestAnswered("i", "ada", w.Acknowledge(4), True, "x"), 4),
        (f.RequestAnswered("i", "ada", w.HoldRun(), True, "x"), None),
        (f.ActionDecided(a.SendPage("page/5/1/trigger/pager", 5, "critical", "t", "x")), 5),
        (f.ActionConfirmed("page/5/1/trigger/pager"), 5),
        (f.ActionAbandoned("page/5", "no route"), 5),
        (f.ActionConfirmed("start/7"), None),
        (f.ActionConfirmed("page/x"), None),
        (f.Noted("incident 6", "evidence could not be saved"), 6),
        (f.Noted("incident x", "x"), None),
        (f.Noted("stop", "x"), None),
        (f.RunEnded("failed", "x"), None),
    ],
)
def test_which_incident_a_fact_is_about(fact: f.Fact, number: int | None) -> None:
    assert incident_of(fact) == number
