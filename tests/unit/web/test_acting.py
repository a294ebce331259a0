"""What a person asks from the page: it goes into the run's inbox, under their name, and the supervisor's answer comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model import operator_requests as w
from sentinel.operator.answers import Answered
from sentinel.operator.requests import ask_unattended
from sentinel.report.reading import read_incidents
from sentinel.web import acting
from sentinel.web.access import WRONG_MAX
from sentinel.web.acting import WHO_CHARS_MAX, who_of
from sentinel.web.answers import Request
from sentinel.web.site import SiteServices
from tests.unit.cli.test_stop import start_supervisor
from tests.unit.web.web_kit import BEARER, JSON, TOKEN, served, supervised, write_told


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_told(tmp_path, until=100)


@pytest.mark.parametrize(
    ("path", "wish"),
    [
        ("incidents/2/acknowledge", w.Acknowledge(2)),
        ("incidents/2/resolve", w.Resolve(2)),
        ("incidents/2/approve", w.Approve(2)),
        ("incidents/1/deny", w.Deny(1)),
        ("pause", w.PauseRun()),
        ("resume", w.ResumeRun()),
        ("hold", w.HoldRun()),
    ],
)
def test_a_wish_reaches_the_supervisor_and_its_answer_the_page(run_dir: Path, path: str, wish: w.OperatorRequest) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        answer = site.post(f"/api/runs/demo/{path}", {**BEARER, **JSON, "X-Sentinel-Who": "Ada"})
    assert (answer.status, answer.json) == (200, {"granted": True, "words": "as you wish"})
    assert [(one.by, one.request) for one in heard] == [("Ada (browser at 127.0.0.1)", wish)]


def test_an_answer_names_the_rung_that_it_is_about(run_dir: Path) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        for verb in ("approve", "deny"):
            assert site.post(f"/api/runs/demo/incidents/2/{verb}", body=b'{"rung": 1}').json["granted"] is True
        for body in (b'{"rung": "1"}', b'{"rung": -1}', b'{"rung": true}', b'{"rung": 1.5}'):
            refused = site.post("/api/runs/demo/incidents/2/approve", body=body)
            assert refused.status == 400
            assert "rung: is not the index of a rung" in refused.json["error"]
    assert [one.request for one in heard] == [w.Approve(2, 1), w.Deny(2, 1)]


def test_a_rollback_says_to_which_step(run_dir: Path) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        assert site.post("/api/runs/demo/rollback", body=b'{"to_step": 350}').json["granted"] is True
        for body in (b"{}", b'{"to_step": "350"}', b'{"to_step": -1}', b'{"to_step": true}', b'{"to_step": 3.5}'):
            refused = site.post("/api/runs/demo/rollback", body=body)
            assert refused.status == 400
            assert "to_step: is not a step" in refused.json["error"]
    assert [one.request for one in heard] == [w.RollBack(350)]


def test_a_stop_asks_the_supervisor_as_the_command_does(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "ANSWER_S", 0.05)
    with start_supervisor(run_dir, "listens") as child, served(run_dir, token=TOKEN) as site:
        assert site.post("/api/runs/demo/stop", JSON).status == 401, "not without the token"
        answer = site.post("/api/runs/demo/stop", {**BEARER, **JSON, "X-Sentinel-Who": "Ada"})
        assert (answer.status, answer.json["granted"]) == (202, None)
        assert child.wait(20) == 0
        asked = [path.read_text() for path in (run_dir / "inbox").iterdir()]
        assert len(asked) == 1
        assert "Ada (browser at 127.0.0.1)" in asked[0], "a signal does not say who sent it"
        gone = site.post("/api/runs/demo/stop")
        assert gone.status == 409
        assert "nobody supervises the run" in gone.json["error"]


def test_a_refusal_of_the_supervisor_is_its_sentence(run_dir: Path) -> None:
    with supervised(run_dir, granted=False), served(run_dir, token=TOKEN) as site:
        assert site.post("/api/runs/demo/pause").json == {"granted": False, "words": "not now"}


def test_an_answer_that_does_not_come_in_time_is_said_and_the_wish_stays(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "ANSWER_S", 0.05)
    with supervised(run_dir, answers=False), served(run_dir, token=TOKEN) as site:
        answer = site.post("/api/runs/demo/pause")
    assert answer.status == 202
    assert answer.json["granted"] is None
    assert "is not answered yet" in answer.json["words"]
    assert len(list((run_dir / "inbox").iterdir())) == 1


def test_a_run_that_nobody_supervises_says_who_could_answer(run_dir: Path) -> None:
    with served(run_dir, token=TOKEN) as site:
        answer = site.post("/api/runs/demo/pause")
        assert answer.status == 409
        assert "nobody supervises this run" in answer.json["error"]
        assert site.post("/api/runs/none/pause").status == 404
        assert site.post("/api/runs/demo/incidents/7/approve").status == 404
        assert site.post("/api/runs/demo/incidents/x/approve").status == 404
        assert not (run_dir / "inbox").exists()


def test_a_run_that_has_finished_is_not_said_to_go_on(tmp_path: Path) -> None:
    with served(write_told(tmp_path), token=TOKEN) as site:
        answer = site.post("/api/runs/demo/resume")
    assert answer.status == 409
    assert answer.json["error"].endswith("nobody supervises this run: it has finished")


def test_what_may_be_answered_without_a_supervisor_is_answered_and_the_rest_refused(run_dir: Path) -> None:
    def unattended(place: Path, by: str, wish: w.OperatorRequest) -> Answered:
        if not isinstance(wish, w.Acknowledge):
            raise UsageError("nobody could do this")
        return Answered(True, f"{by} has seen incident {wish.incident} of {place.name}")

    with served(run_dir, token=TOKEN, services=SiteServices(unattended=unattended)) as site:
        answer = site.post("/api/runs/demo/incidents/2/acknowledge")
        assert (answer.status, answer.json) == (
            200,
            {"granted": True, "words": "browser at 127.0.0.1 has seen incident 2 of demo"},
        )
        refused = site.post("/api/runs/demo/pause")
        assert (refused.status, refused.json) == (409, {"error": "nobody could do this"})
        assert site.post("/api/runs/demo/incidents/2/acknowledge", JSON).status == 401
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN, services=SiteServices(unattended=unattended)) as site:
        assert site.post("/api/runs/demo/pause").json["granted"] is True
    assert len(heard) == 1, "whoever supervises it is asked"


def test_a_page_of_a_run_whose_supervisor_has_gone_is_acknowledged_from_the_browser(run_dir: Path) -> None:
    with served(run_dir, token=TOKEN, services=SiteServices(unattended=ask_unattended)) as site:
        answer = site.post("/api/runs/demo/incidents/2/acknowledge", {**BEARER, **JSON, "X-Sentinel-Who": "Ada"})
        assert (answer.status, answer.json["granted"]) == (200, True), answer.body
        assert site.post("/api/runs/demo/pause").status == 409
    assert read_incidents(run_dir)[1]["acknowledged_by"] == "Ada (browser at 127.0.0.1)"


@pytest.mark.parametrize("body", [b"[]", b"x", b"\xff", b"NaN", b'"pause"', b"[" * 8000])
def test_a_body_that_is_no_object_was_sent_by_mistake(run_dir: Path, body: bytes) -> None:
    with served(run_dir, token=TOKEN) as site:
        assert site.post("/api/runs/demo/pause", body=body).status == 400


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("", ""),
        ("  Ada   Lovelace ", "Ada Lovelace"),
        ("Ada\x1b[31m\x00\x7f<b>", "Ada [31m <b>"),
        ("Zoë".encode().decode("latin-1"), "Zoë"),
        ("\u202eAda", "?Ada"),
        ("x" * 500, "x" * WHO_CHARS_MAX),
    ],
)
def test_a_name_in_the_journal_is_short_printable_and_never_without_its_place(said: str, name: str) -> None:
    by = who_of(Request("POST", (), {}, {"HTTP_X_SENTINEL_WHO": said}, "10.0.0.7"))
    assert by == (f"{name} (browser at 10.0.0.7)" if name else "browser at 10.0.0.7")
    assert by.isprintable()


def test_the_right_token_acts_and_reads_from_an_address_of_which_wrong_ones_came(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path)
    wrong = {"Authorization": "Bearer an-old-token-of-a-script"}
    with served(run_dir, token=TOKEN, host="0.0.0.0") as site:
        assert [site.get("/api/runs", wrong).status for _ in range(WRONG_MAX + 3)] == [401] * WRONG_MAX + [429] * 3
        assert site.get("/api/runs", BEARER).status == 200
        assert site.post("/api/runs/demo/pause").status == 409, "let in: nobody supervises the run"
        refused = site.post("/api/runs/demo/pause", {**JSON, **wrong})
        assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
