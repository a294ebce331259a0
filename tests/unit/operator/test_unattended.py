"""Answering a page when nobody supervises the run any more: ack, resolve and note are written down, told on, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.channels.notice import Notice
from sentinel.channels.terminal import Terminal
from sentinel.cli.root import app
from sentinel.client.run_layout import JOURNAL_NAME, incident_report_path
from sentinel.errors import AlreadySupervised, GiveUp, RetryLater, UsageError
from sentinel.journal.answering import answering, is_being_answered
from sentinel.journal.lease import read_lease
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.actions import KillAttempt, SendPage
from sentinel.model.incidents import IncidentState
from sentinel.model.state import RunState
from sentinel.operator import requests as asking
from sentinel.operator import unattended as afterwards
from sentinel.operator.requests import ask
from sentinel.operator.unattended import answer_unattended
from sentinel.report.reading import read_incidents, read_run, read_status
from sentinel.report.run_policy import read_policy
from tests.unit.told_run import at, write_run

CALL = SendPage("page/2/1/trigger/terminal", 2, "critical", "demo: spike since step 379", "the case", "trigger", "terminal")
GAVE_UP: tuple[f.Fact, ...] = (
    f.IncidentMoved(2, IncidentState.EXHAUSTED, "every rung was tried"),
    f.PageRaised(2, "critical", CALL.title, CALL.text),
    f.ActionDecided(CALL),
)
TOLD = (f.ActionConfirmed(CALL.key, "printed"), f.RunEnded("failed", "every rung was tried"))


def failed_run(folder: Path, *more: f.Fact) -> Path:
    """A run that was given up at the spike of the told run, paged on the terminal, and ended."""
    run_dir = write_run(folder / "run", until=91)
    with take_run(run_dir) as session:
        session.journal.append(at(95), [*GAVE_UP, *(more or TOLD)], session.epoch)
    return run_dir


def facts_of(run_dir: Path, after: int) -> Sequence[f.Fact]:
    with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
        return [entry.fact for entry in journal.read_entries(after)]


def length_of(run_dir: Path) -> int:
    with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
        return max(entry.seq for entry in journal.read_entries())


def state_of(run_dir: Path) -> RunState:
    return read_run(run_dir).state


def pages_left(run_dir: Path) -> list[str]:
    return [key for key, action in state_of(run_dir).pending.items() if isinstance(action, SendPage)]


def test_an_acknowledgement_is_written_down_and_told_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = failed_run(tmp_path)
    before, epoch = length_of(run_dir), state_of(run_dir).epoch
    answer = ask(run_dir, w.Acknowledge(2))
    assert (answer.granted, answer.words.startswith("incident 2 is acknowledged by ")) == (True, True)
    kinds = [type(fact).__name__ for fact in facts_of(run_dir, before)]
    assert kinds == ["RequestAnswered", "ActionDecided", "ActionConfirmed"]
    state = state_of(run_dir)
    page = state.incident(2).page
    assert page is not None
    assert (page.is_open, page.on("terminal").acknowledged) == (True, True)
    assert (state.ended, state.epoch, pages_left(run_dir)) == ("failed", epoch, []), "it was no session of a supervisor"
    assert "demo: spike since step 379" in capsys.readouterr().err
    lease = read_lease(run_dir)
    assert lease is not None
    assert lease.released, "whoever starts the run again need not wait"


def test_resolving_closes_the_page_and_a_note_stays_in_the_record(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    assert ask(run_dir, w.Resolve(2)).granted
    assert state_of(run_dir).open_pages == ()
    assert ask(run_dir, w.Remark("the fan of node 3 had died")).words == "noted"
    wish = facts_of(run_dir, 0)[-1]
    assert isinstance(wish, f.RequestAnswered)
    assert wish.wish == w.Remark("the fan of node 3 had died")


def test_the_incidents_report_tells_of_the_answer(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    path = incident_report_path(run_dir, 2)
    answer_unattended(run_dir, "ada@desk", w.Acknowledge(2))
    assert "ada@desk" in path.read_text()
    answer_unattended(run_dir, "grace@sofa", w.Resolve(2))
    assert "grace@sofa" in path.read_text()


def test_a_report_that_cannot_be_written_takes_no_answer_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = failed_run(tmp_path)
    incident_report_path(run_dir, 2).mkdir(parents=True)
    assert answer_unattended(run_dir, "ada", w.Resolve(2)).granted
    assert state_of(run_dir).open_pages == ()
    assert f"`sentinel report {run_dir} 2` writes it" in capsys.readouterr().err


def test_whoever_starts_the_run_again_still_answers_its_end(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    ask(run_dir, w.Acknowledge(2))
    assert not any(isinstance(fact, f.SupervisorTookOver) for fact in facts_of(run_dir, 0)[5:])
    assert state_of(run_dir).ended == "failed"


def test_what_would_change_the_run_is_refused_as_ever(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    before = length_of(run_dir)
    with pytest.raises(UsageError, match="nobody supervises this run"):
        ask(run_dir, w.ResumeRun())
    assert not ask(run_dir, w.Acknowledge(7)).granted
    assert len(facts_of(run_dir, before)) == 1, "the refusal, and nothing was sent"


def test_only_pages_are_carried_out_whatever_else_was_decided(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    kill = {"kill/2": KillAttempt("kill/2", 2)}
    assert dict(state_of(run_dir).pending) == kill
    answer_unattended(run_dir, "ada", w.Acknowledge(2))
    assert dict(state_of(run_dir).pending) == kill


def test_a_call_that_was_never_made_is_not_made_to_who_answers_it(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path, f.RunEnded("failed", "every rung was tried"))
    answer_unattended(run_dir, "ada", w.Acknowledge(2))
    decided = [fact.action for fact in facts_of(run_dir, 0) if isinstance(fact, f.ActionDecided)]
    assert [action.stage for action in decided if isinstance(action, SendPage)] == ["trigger", "acknowledge"]
    assert [fact.withdrawn for fact in facts_of(run_dir, 0) if isinstance(fact, f.ActionAbandoned)] == [True]
    assert not pages_left(run_dir)


def test_a_route_that_fails_for_now_is_tried_again_and_left_for_later_when_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def deliver(_: Terminal, page: Notice) -> str:
        tries.append(page.key)
        if len(tries) < 2:
            raise RetryLater("no answer", 0.01)
        return "printed"

    monkeypatch.setattr(Terminal, "deliver", deliver)
    run_dir = failed_run(tmp_path / "a")
    answer_unattended(run_dir, "ada", w.Acknowledge(2))
    assert (len(tries), pages_left(run_dir)) == (2, [])

    tries.clear()
    monkeypatch.setattr(Terminal, "deliver", lambda *_: (_ for _ in ()).throw(RetryLater("no answer", 60.0)))
    run_dir = failed_run(tmp_path / "b")
    answer_unattended(run_dir, "ada", w.Acknowledge(2), within_s=0.05)
    assert pages_left(run_dir) == ["page/2/2/acknowledge/terminal"]


def test_what_could_not_be_sent_goes_out_with_the_next_answer_a_refused_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody starts a finished run again: a resolve that was left there would never go out."""
    run_dir = failed_run(tmp_path)
    with monkeypatch.context() as down:
        down.setattr(Terminal, "deliver", lambda *_: (_ for _ in ()).throw(RetryLater("no answer", 60.0)))
        assert answer_unattended(run_dir, "ada", w.Resolve(2), within_s=0.05).granted
    assert pages_left(run_dir) == ["page/2/2/resolve/terminal"]
    assert not answer_unattended(run_dir, "ada", w.Resolve(2)).granted
    assert pages_left(run_dir) == []


def test_a_route_that_refuses_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise GiveUp("404")

    monkeypatch.setattr(Terminal, "deliver", refuse)
    run_dir = failed_run(tmp_path)
    assert answer_unattended(run_dir, "ada", w.Acknowledge(2)).granted
    page = state_of(run_dir).incident(2).page
    assert page is not None
    assert page.on("terminal").trouble == "404"


def test_a_route_whose_secret_is_not_here_is_left_to_whoever_has_it_and_the_person_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is in the environment of the supervisor's unit, and not in everybody's shell."""
    monkeypatch.delenv("SENTINEL_PAGERDUTY_KEY", raising=False)
    call = replace(CALL, key="page/2/1/trigger/pagerduty", route="pagerduty")
    run_dir = failed_run(tmp_path, f.ActionDecided(call), f.ActionConfirmed(call.key, "accepted"), *TOLD)
    _ask_for_routes(run_dir, "pagerduty=http://127.0.0.1:9/v2/enqueue")
    assert answer_unattended(run_dir, "ada", w.Acknowledge(2)).granted
    assert pages_left(run_dir) == ["page/2/2/acknowledge/pagerduty"], "given up, PagerDuty would call on"
    said = capsys.readouterr().err
    assert "route pagerduty: acknowledge is not out: the environment variable SENTINEL_PAGERDUTY_KEY is not set" in said
    assert "route terminal" not in said


def test_a_person_is_told_of_what_did_not_get_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: list[tuple[Exception, float]] = [(RetryLater("no answer", 60.0), 1.0), (GiveUp("404"), 20.0)]
    said = ["route terminal: acknowledge is not out: no answer; it goes out", "acknowledge/terminal could not be delivered: 404"]
    for number, words in enumerate(said):
        error, within_s = errors[number]
        monkeypatch.setattr(Terminal, "deliver", lambda *_, error=error: (_ for _ in ()).throw(error))
        answer_unattended(failed_run(tmp_path / str(number)), "ada", w.Acknowledge(2), within_s=within_s)
        assert words in capsys.readouterr().err


def test_who_answers_while_somebody_else_does_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other holds the run, and looks into no inbox: asked there, they would answer to nobody."""
    run_dir = failed_run(tmp_path)
    sign, looked = answering(run_dir), threading.Event()
    sign.__enter__()
    monkeypatch.setattr(asking, "is_being_answered", lambda path: (looked.set(), is_being_answered(path))[1])
    granted: list[bool] = []
    second = threading.Thread(target=lambda: granted.append(ask(run_dir, w.Acknowledge(2)).granted))
    second.start()
    assert looked.wait(20.0)
    assert granted == []
    sign.__exit__(None, None, None)
    second.join(30.0)
    assert granted == [True]


def test_a_run_that_somebody_takes_meanwhile_is_left_to_them(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    with take_run(run_dir), pytest.raises(AlreadySupervised):
        answer_unattended(run_dir, "ada", w.Acknowledge(2))


def test_a_policy_that_is_gone_does_not_keep_anybody_from_answering(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = failed_run(tmp_path)
    plain = json.loads((run_dir / "run.json").read_text())
    plain["policy"]["path"] = str(tmp_path / "gone.yaml")
    (run_dir / "run.json").write_text(json.dumps(plain))
    assert answer_unattended(run_dir, "ada", w.Acknowledge(2)).granted
    assert "gone.yaml is gone, or no policy any more: whom its own routes have called is told" in capsys.readouterr().err


def _ask_for_routes(run_dir: Path, *routes: str) -> None:
    plain = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**plain, "pages": list(routes)}))


def test_status_and_incidents_show_the_page(tmp_path: Path) -> None:
    run_dir = failed_run(tmp_path)
    (page,) = read_status(run_dir)["pages"]
    assert (page["incident"], page["acknowledged_by"], page["told"][0]["state"]) == (2, "", "delivered")
    said = CliRunner().invoke(app, ["status", str(run_dir)]).stdout
    assert "told on terminal; nobody has answered" in said
    assert f"sentinel ack 2 {run_dir}" in said
    ask(run_dir, w.Acknowledge(2))
    assert "acknowledged by " in CliRunner().invoke(app, ["status", str(run_dir)]).stdout
    ask(run_dir, w.Resolve(2))
    assert read_status(run_dir)["pages"] == []
    document = read_incidents(run_dir)[1]["page"]
    assert (document["open"], document["resolved"]) == (False, "a person says so")
    assert "its page was resolved by " in CliRunner().invoke(app, ["incidents", str(run_dir)]).stdout


def test_the_commands_say_what_came_of_it(tmp_path: Path) -> None:
    run_dir = str(failed_run(tmp_path))
    cli = CliRunner()
    for words, code, said in (
        (["ack", "2", run_dir], 0, "incident 2 is acknowledged by"),
        (["ack", "2", run_dir], 1, "refused: incident 2 was already acknowledged"),
        (["note", run_dir, "we restart on Monday"], 0, "noted"),
        (["resolve", "2", run_dir], 0, "the page of incident 2 is resolved"),
        (["resolve", "2", run_dir], 1, "refused: the page of incident 2 is already resolved: a person says so"),
    ):
        done = cli.invoke(app, words)
        assert (done.exit_code, said in done.output) == (code, True), done.output


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "x" * 2001, "bell\a"])
def test_a_note_that_is_no_line_is_refused(tmp_path: Path, text: str) -> None:
    run_dir = failed_run(tmp_path)
    done = CliRunner().invoke(app, ["note", str(run_dir), text])
    assert isinstance(done.exception, UsageError)
    assert "one printable line" in str(done.exception)


def test_the_time_a_person_waits_is_bounded() -> None:
    assert afterwards.SEND_S <= 20.0


def test_a_policy_applied_since_the_supervisor_ended_is_the_runs_own(tmp_path: Path) -> None:
    """Its routes tell of an answer, and its signing secret is the one that a press in Slack is verified by."""
    run_dir, mine = failed_run(tmp_path), tmp_path / "mine.yaml"
    mine.write_text("{apiVersion: sentinel/v1, kind: RemediationPolicy, metadata: {name: mine}, extends: demo}\n")
    assert afterwards.load_run_policy(run_dir)[0].metadata.name == "demo"
    assert CliRunner().invoke(app, ["policy", "apply", str(mine), str(run_dir)]).exit_code == 0
    mine.unlink()
    policy, unread = afterwards.load_run_policy(run_dir)
    assert (policy.metadata.name, unread) == ("mine", "")
    shown, _ = read_policy(run_dir)
    assert shown is not None
    assert shown.metadata.name == "mine", "what status, page and prune go by"
