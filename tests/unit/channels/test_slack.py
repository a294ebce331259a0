"""Slack by an app's bot: one thread for a run, calls shown in the channel too, buttons that say what they are about, and signed
requests. A server on loopback plays Slack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sentinel.channels import slack_signature as s
from sentinel.channels.contract import Channel
from sentinel.channels.opening import open_channel
from sentinel.channels.registry import Route
from sentinel.channels.slack import SlackRoute
from sentinel.channels.slack_bot import THREADS_NAME
from sentinel.errors import GiveUp, RetryLater
from tests.loopback import HttpServer, Received, Reply
from tests.unit.channels.notices import notice

ENV = {"TOKEN": "xoxb-1-secret", "SIGNING": "8f742231b10e8888abcd99yyyzzz85a5"}
SIGNED_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&"
    b"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F"
    b"commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
    b"803a0bc887a14d10d2c447fce8b6703c"
)


@pytest.fixture
def slack() -> Iterator[HttpServer]:
    """It takes everything, and numbers what it has."""
    with HttpServer() as server:
        count = iter(range(1, 100))
        server.always = lambda _: Reply(body=json.dumps({"ok": True, "ts": f"1700000000.{next(count):06d}"}).encode())
        yield server


def bot(slack: HttpServer, run_dir: Path | None, **more: Any) -> Channel:
    settings = {"token": {"env": "TOKEN"}, "channel": "C024BE91L", "signing_secret": {"env": "SIGNING"}, "url": slack.url}
    return open_channel(Route.model_validate({"slack": settings | more}), run_dir, ENV)


def told(slack: HttpServer) -> list[Received]:
    found = []
    while not slack.received.empty():
        found.append(slack.received.get())
    return found


def test_the_messages_of_a_run_are_one_thread_and_calls_are_seen_in_the_channel(slack: HttpServer, tmp_path: Path) -> None:
    for stage in ("trigger", "acknowledge", "trigger"):
        bot(slack, tmp_path).deliver(notice(stage))  # each by another supervisor: the thread is known from the disk
    first, second, third = (one.json for one in told(slack))
    assert "thread_ts" not in first
    assert first["channel"] == "C024BE91L"
    assert (second["thread_ts"], second["reply_broadcast"]) == ("1700000000.000001", False)
    assert (third["thread_ts"], third["reply_broadcast"]) == ("1700000000.000001", True)
    assert json.loads((tmp_path / THREADS_NAME).read_text())["threads"] == {"C024BE91L": "1700000000.000001"}


def test_a_thread_whose_first_message_was_deleted_is_begun_anew(slack: HttpServer, tmp_path: Path) -> None:
    channel = bot(slack, tmp_path)
    channel.deliver(notice("trigger"))
    slack.replies.append(Reply(body=b'{"ok": false, "error": "thread_not_found"}'))
    channel.deliver(notice("resolve"))
    _, refused, again = told(slack)
    assert "thread_ts" in refused.json
    assert "thread_ts" not in again.json
    assert "000002" in (tmp_path / THREADS_NAME).read_text()


def test_a_damaged_memory_of_threads_costs_the_thread_alone(slack: HttpServer, tmp_path: Path) -> None:
    (tmp_path / THREADS_NAME).write_text("{torn")
    bot(slack, tmp_path).deliver(notice("trigger"))
    assert "thread_ts" not in told(slack)[0].json


def test_buttons_carry_the_run_the_incident_and_the_rung(slack: HttpServer, tmp_path: Path) -> None:
    asked = replace(notice("trigger"), asks={"acknowledge": None, "approve": 2, "deny": 2}, began=1_700_000_000)
    (tmp_path / "gpt-7").mkdir()
    bot(slack, tmp_path / "gpt-7").deliver(asked)
    (block,) = [block for block in told(slack)[0].json["blocks"] if block["type"] == "actions"]
    buttons = {one["action_id"]: one for one in block["elements"]}
    assert list(buttons) == ["sentinel_acknowledge", "sentinel_approve", "sentinel_deny"]
    assert json.loads(buttons["sentinel_approve"]["value"]) == {
        "run": "gpt-7", "began": 1_700_000_000, "incident": asked.incident, "rung": 2,
    }  # fmt: skip
    assert buttons["sentinel_approve"]["text"]["text"] == "Approve rung 3"
    assert "confirm" in buttons["sentinel_deny"], "what moves the run is asked twice"
    assert "confirm" not in buttons["sentinel_acknowledge"]


def test_without_a_signing_secret_or_outside_a_run_there_are_no_buttons(slack: HttpServer, tmp_path: Path) -> None:
    asked = replace(notice("trigger"), asks={"acknowledge": None})
    bot(slack, tmp_path, signing_secret=None).deliver(asked)
    bot(slack, None).deliver(asked)
    assert not [block for one in told(slack) for block in one.json["blocks"] if block["type"] == "actions"]


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (b'{"ok": false, "error": "not_in_channel"}', GiveUp, "not_in_channel; /invite the bot into the channel"),
        (b'{"ok": false, "error": "invalid_auth"}', GiveUp, "the token is no bot token"),
        (b'{"ok": false, "error": "ratelimited"}', RetryLater, "ratelimited"),
        (b"<html>", RetryLater, "no JSON object"),
        (b'{"error": 7}', GiveUp, "Slack refuses: 7"),
    ],
)
def test_a_200_that_says_no_is_no_delivery(slack: HttpServer, reply: bytes, error: type[Exception], words: str) -> None:
    slack.replies.append(Reply(body=reply))
    with pytest.raises(error, match=words):
        bot(slack, None).deliver(notice("trigger"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "neither webhook nor token"),
        ({"webhook": {"env": "A"}, "token": {"env": "B"}, "channel": "C024BE91L"}, "both webhook and token"),
        ({"token": {"env": "B"}}, "token and channel belong together"),
        ({"webhook": {"env": "A"}, "channel": "C024BE91L"}, "token and channel belong together"),
        ({"webhook": {"env": "A"}, "signing_secret": {"env": "B"}}, "a webhook has no buttons"),
        ({"token": {"env": "B"}, "channel": "#general"}, "channel"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SlackRoute.model_validate(settings)


def test_a_request_is_signed_as_slack_signs_it() -> None:
    """The example of Slack's own page on verifying requests."""
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert s.sign(ENV["SIGNING"], "1531420618", SIGNED_BODY) == signature
    assert s.is_signed(ENV["SIGNING"], "1531420618", SIGNED_BODY, signature)
    for secret, timestamp, body, wrong in (
        ("8f742231b10e8888abcd99yyyzzz85a6", "1531420618", SIGNED_BODY, signature),
        (ENV["SIGNING"], "1531420619", SIGNED_BODY, signature),
        (ENV["SIGNING"], "1531420618", SIGNED_BODY + b"&", signature),
        (ENV["SIGNING"], "1531420618", SIGNED_BODY, signature.removeprefix("v0=")),
        (ENV["SIGNING"], "1531420618", SIGNED_BODY, "v0=ä"),
        (ENV["SIGNING"], "1531420618", SIGNED_BODY, ""),
    ):
        assert not s.is_signed(secret, timestamp, body, wrong)


@pytest.mark.parametrize("timestamp", ["999699", "1000301", "", "-1000000", "1e6", "١٠٠٠٠٠٠", "1" * 13])
def test_a_request_of_another_time_is_refused(timestamp: str) -> None:
    s.check_age("999700", 1_000_000.0)
    s.check_age("1000300", 1_000_000.0)
    with pytest.raises(s.SignatureRefused):
        s.check_age(timestamp, 1_000_000.0)


def test_the_same_request_is_taken_once_also_when_a_clock_that_is_set_back_makes_it_young_again() -> None:
    seen = s.SeenSignatures()
    seen.take("v0=a", 0.0)
    seen.take("v0=b", 700.0)
    for now_s in (0.0, 299.0, 600.0, 701.0, 90_000.0):
        with pytest.raises(s.SignatureRefused, match="came before"):
            seen.take("v0=a", now_s)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s, "SEEN_MAX", 2)
    seen = s.SeenSignatures()
    seen.take("a", 0.0)
    seen.take("b", 0.0)
    with pytest.raises(s.SignatureRefused, match="too many"):
        seen.take("c", 0.0)
    seen.take("c", 601.0)
    with pytest.raises(s.SignatureRefused, match="came before"):
        seen.take("b", 601.0)
