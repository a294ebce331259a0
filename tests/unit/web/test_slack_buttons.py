"""A press of a button in Slack: signed, of now, once, by who may; it reaches the supervisor, and its answer the run's thread."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sentinel.channels.slack_signature import sign
from sentinel.journal.run_file import PolicyReference, find_run_file, write_run_file
from sentinel.model import operator_requests as w
from sentinel.web.server import BODY_BYTES_MAX
from sentinel.web.slack import read_press
from tests.loopback import HttpServer, Reply
from tests.unit.told_run import START_S, told, write_run
from tests.unit.web.web_kit import DEADLINE_S, TOKEN, Answer, Served, served, supervised, write_told

SECRET = "0123456789abcdef0123456789abcdef"
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {{name: mine}}
extends: default
spec:
  paging:
    routes:
      - slack: {{token: {{env: T_SLACK}}, channel: C024BE91L, signing_secret: {{env: T_SIGN}}, url: "{url}", people: [{people}]}}
"""


@pytest.fixture
def slack() -> Iterator[HttpServer]:
    with HttpServer() as server:
        server.always = lambda _: Reply(body=b'{"ok": true, "ts": "1700000000.000001"}')
        yield server


@pytest.fixture
def run_dir(tmp_path: Path, slack: HttpServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("T_SLACK", "xoxb-1-of-the-tests")
    monkeypatch.setenv("T_SIGN", SECRET)
    return with_policy(write_told(tmp_path, until=100), slack)


def with_policy(run_dir: Path, slack: HttpServer, people: str = "") -> Path:
    path = run_dir.parent / "mine.yaml"
    path.write_text(POLICY.format(url=slack.url, people=people))
    run = find_run_file(run_dir)
    assert run is not None
    write_run_file(run_dir, replace(run, policy=PolicyReference(str(path), "0" * 64, "mine")))
    return run_dir


def pressed(verb: str = "acknowledge", **about: Any) -> bytes:
    """What Slack sends, the message with it."""
    value = json.dumps({"run": "demo", "incident": 2, "rung": None} | about)
    payload = {
        "type": "block_actions",
        "user": {"id": "U0ADA0001", "username": "ada", "team_id": "T1"},
        "message": {"text": "x" * 12_000},
        "actions": [{"action_id": f"sentinel_{verb}", "value": value, "type": "button"}],
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def press(site: Served, body: bytes, secret: str = SECRET, age_s: float = 0.0, **headers: str) -> Answer:
    timestamp = str(int(time.time() - age_s))
    told = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": sign(secret, timestamp, body)} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return site.post("/slack/actions", {"Content-Type": "application/x-www-form-urlencoded", **told}, body)


def said(slack: HttpServer) -> Mapping[str, Any]:
    found: Mapping[str, Any] = slack.received.get(timeout=DEADLINE_S).json
    return found


def test_a_press_reaches_the_supervisor_and_its_answer_the_thread(run_dir: Path, slack: HttpServer) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        answer = press(site, pressed())
        assert (answer.status, answer.body) == (200, b"")
        told = said(slack)
    assert [(one.by, one.request) for one in heard] == [("ada (U0ADA0001 in Slack)", w.Acknowledge(2))]
    assert told["text"] == "ada (U0ADA0001 in Slack): acknowledge incident 2: as you wish"
    assert told["channel"] == "C024BE91L"


def test_no_token_is_needed_and_none_helps(run_dir: Path, slack: HttpServer) -> None:
    """The signature is the credential, also of a server that only shows."""
    with supervised(run_dir) as heard, served(run_dir) as site:
        assert press(site, pressed(), secret="x" * 32, Authorization=f"Bearer {TOKEN}").status == 401
        assert press(site, pressed()).status == 200
        said(slack)
    assert len(heard) == 1


@pytest.mark.parametrize("body", [pressed(), pressed(run="none"), pressed(incident=7)])
def test_what_slack_has_not_signed_is_refused_and_tells_nothing(run_dir: Path, body: bytes) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        wrong = press(site, body, secret="x" * 32)
        assert press(site, body, age_s=301.0).status == 401
        assert press(site, body, age_s=-302.0).status == 401
        unsigned = site.post("/slack/actions", {}, body)
    assert (unsigned.status, "it is not signed" in unsigned.json["error"]) == (401, True)
    assert wrong.status == 401
    assert wrong.json["error"].endswith("its signature is that of no route of the run it names"), "whichever run it names"
    assert not heard


def test_the_same_press_is_taken_once(run_dir: Path, slack: HttpServer) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        timestamp, body = str(int(time.time())), pressed()
        headers = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": sign(SECRET, timestamp, body)}
        answers = [site.post("/slack/actions", headers, body).status for _ in range(3)]
        said(slack)
    assert answers == [200, 401, 401]
    assert len(heard) == 1


def test_only_the_people_of_the_route_may_press(run_dir: Path, slack: HttpServer) -> None:
    with_policy(run_dir, slack, people="U0BOB0001")
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        assert press(site, pressed()).status == 403
    with_policy(run_dir, slack, people="U0BOB0001, U0ADA0001")
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        assert press(site, pressed()).status == 200
        said(slack)
    assert len(heard) == 1


def test_a_button_of_a_rung_that_waits_no_more_approves_no_other(run_dir: Path, slack: HttpServer) -> None:
    with supervised(run_dir) as heard, served(run_dir, token=TOKEN) as site:
        assert press(site, pressed("approve", rung=1)).status == 200
        assert "rung 2 does not wait for an answer any more" in said(slack)["text"]
        assert press(site, pressed(incident=7)).status == 404
    assert not heard


def test_of_two_runs_of_one_name_the_one_is_asked_that_the_button_is_of(run_dir: Path, tmp_path: Path, slack: HttpServer) -> None:
    """Each in a directory `demo`, under one policy, in two places that one server shows."""
    other = write_run(tmp_path / "elsewhere" / "demo", facts=[(when + 777.0, fact) for when, fact in told(100)])
    with_policy(other, slack)
    with supervised(other) as heard, served(run_dir, other.parent, token=TOKEN) as site:
        assert press(site, pressed()).status == 401, "a button that does not say which: neither is asked"
        assert press(site, pressed(began=5)).status == 401
        assert press(site, pressed(began=int(START_S + 777.0))).status == 200
        said(slack)
    assert [one.request for one in heard] == [w.Acknowledge(2)]
    with supervised(run_dir) as heard, served(run_dir, other.parent, token=TOKEN) as site:
        assert press(site, pressed(began=int(START_S))).status == 200
        said(slack)
    assert [one.request for one in heard] == [w.Acknowledge(2)]


def test_a_run_that_nobody_supervises_says_so_in_the_thread(run_dir: Path, slack: HttpServer) -> None:
    with served(run_dir, token=TOKEN) as site:
        assert press(site, pressed()).status == 200
        assert "nobody supervises this run" in said(slack)["text"]


def test_without_the_secret_in_its_environment_a_server_believes_nobody(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("T_SIGN")
    with served(run_dir, token=TOKEN) as site:
        assert press(site, pressed()).status == 401
        assert press(site, pressed(), secret="").status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"", b"payload=", b"payload=%7B%7D", b"{}", b"payload=[]", "payload=ä".encode(), pressed("shutdown"),
        pressed(incident="2"), pressed(run=7), pressed(rung="1"), urlencode({"payload": '{"type": "view_submission"}'}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_press_is_refused(run_dir: Path, body: bytes) -> None:
    with served(run_dir, token=TOKEN) as site:
        assert press(site, body).status == 400


def test_names_are_plain_and_short() -> None:
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "username": "a\x1b[31m\nb" + "x" * 100},
        "actions": [{"action_id": "sentinel_deny", "value": '{"run": "demo", "incident": 1, "rung": 0}'}],
    }
    found = read_press(urlencode({"payload": json.dumps(payload)}).encode())
    assert found.name.startswith("a [31m b")
    assert len(found.name) == 64


def test_a_message_of_the_longest_kind_fits_into_a_request(run_dir: Path) -> None:
    """Slack sends the whole message back: four sections of 2,800 characters, each of which may take nine bytes."""
    assert len(pressed()) + 4 * 2800 * 9 < BODY_BYTES_MAX
