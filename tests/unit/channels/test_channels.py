"""Every channel against a real server: what arrives, under which key, and which refusals are final."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel.channels.alertmanager import build_alert
from sentinel.channels.command import Command, CommandRoute
from sentinel.channels.http_call import host_of
from sentinel.channels.opening import Guarded, open_channel
from sentinel.channels.pagerduty import build_event
from sentinel.channels.program_starter import SHARED
from sentinel.channels.registry import Route
from sentinel.channels.slack import build_message
from sentinel.channels.terminal import Terminal
from sentinel.errors import GiveUp, RetryLater
from sentinel.paging.patience import Patience
from tests.hanging_folder import HangingFolder, why_not
from tests.loopback import HttpServer, Received, Reply
from tests.unit.channels.notices import AT_S, TEXT, notice

ENV = {"KEY": "R0UT1NGK3YR0UT1NGK3Y", "SIGN": "sign-with-this"}


def channel(**route: Any) -> Guarded:
    return open_channel(Route.model_validate(route), None, ENV)


def pagerduty(url: str) -> Guarded:
    return channel(pagerduty={"routing_key": {"env": "KEY"}, "url": f"{url}/v2/enqueue"})


def test_pagerduty_gets_the_whole_life_of_a_page_under_one_key() -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(202, b'{"status":"success"}')
        duty = pagerduty(server.url)
        for stage in ("trigger", "update", "acknowledge", "resolve"):
            duty.deliver(notice(stage))  # type: ignore[arg-type]
        events = [got.json for got in server.all()]
    assert [event["event_action"] for event in events] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert {event["dedup_key"] for event in events} == {"sentinel/gpt-7/4"}
    first = events[0]
    assert (first["routing_key"], first["client"]) == (ENV["KEY"], "sentinel")
    assert first["links"] == [{"href": "https://book.example/RUNBOOK.md#spike", "text": "runbook"}]
    payload = first["payload"]
    assert (payload["summary"], payload["severity"], payload["source"]) == ("gpt-7: spike since step 71", "critical", "node-3")
    assert (payload["component"], payload["class"], payload["timestamp"]) == ("gpt-7", "spike", "2026-11-18T11:06:40.250+00:00")
    assert payload["custom_details"]["case"] == TEXT
    assert payload["custom_details"]["answers"] == ["sentinel ack 4 runs/gpt-7"]


def test_pagerduty_is_not_woken_by_a_message_and_cuts_what_it_would_refuse() -> None:
    with HttpServer() as server:
        assert pagerduty(server.url).deliver(notice("message")).startswith("not sent")
        assert server.all() == []
    event = build_event(notice(title="x" * 5000, dedup_key="sentinel/" + "r" * 300 + "/4"), "k")
    assert (len(event["payload"]["summary"]), len(event["dedup_key"])) == (1024, 255)
    assert event["dedup_key"] != build_event(notice(dedup_key="sentinel/" + "r" * 300 + "/5"), "k")["dedup_key"]


def test_pagerdutys_refusals() -> None:
    with HttpServer() as server:
        server.replies = [Reply(429, b"", {"Retry-After": "11"}), Reply(400, b'{"errors":["bad key"]}')]
        with pytest.raises(RetryLater) as later:
            pagerduty(server.url).deliver(notice())
        with pytest.raises(GiveUp, match=r"answered 400: .*bad key"):
            pagerduty(server.url).deliver(notice())
    assert later.value.retry_in_s == 11


def alertmanager(url: str, **more: Any) -> Guarded:
    return channel(alertmanager={"url": url, "labels": {"team": "training"}, **more})


def listing(*alerts: Mapping[str, Any]) -> Reply:
    return Reply(200, json.dumps(alerts).encode())


def test_an_alert_carries_the_case_and_is_resolved_with_it() -> None:
    with HttpServer() as server:
        server.always = lambda got: listing() if got.method == "GET" else Reply()
        manager = alertmanager(server.url + "/", token={"env": "KEY"})
        manager.deliver(notice("trigger"))
        manager.deliver(notice("resolve", at_s=AT_S + 60))
        look, post, _, resolve = server.all()
    assert (look.path.partition("?")[0], post.path) == ("/api/v2/alerts", "/api/v2/alerts")
    assert post.headers["Authorization"] == f"Bearer {ENV['KEY']}"
    (alert,), (end,) = post.json, resolve.json
    assert alert["labels"] == {
        "alertname": "SentinelIncident", "run": "gpt-7", "incident": "4", "severity": "critical", "kind": "spike",
        "team": "training",
    }  # fmt: skip
    said = alert["annotations"]
    assert (said["summary"], said["description"]) == ("gpt-7: spike since step 71", TEXT)
    assert said["runbook_url"] == "https://book.example/RUNBOOK.md#spike"
    assert "endsAt" not in alert
    assert end["labels"] == alert["labels"]
    assert (end["endsAt"], end["annotations"]["resolved_by"]) == ("2026-11-18T11:06:40.250+00:00", "ada@desk")


def test_a_changed_severity_ends_the_alert_that_it_was_and_nobody_elses() -> None:
    old = {**build_alert(notice(), {"team": "training"})["labels"], "severity": "warning"}
    others = {**old, "team": "another"}
    with HttpServer() as server:
        server.replies = [listing({"labels": old, "annotations": {"summary": "s"}}, {"labels": others}, {"labels": 5}, 7)]  # type: ignore[arg-type]
        assert alertmanager(server.url).deliver(notice("update")) == "alert posted; 1 with other labels ended"
        _, post = server.all()
    new, former = post.json
    assert (new["labels"]["severity"], former["labels"]["severity"]) == ("critical", "warning")
    assert former["annotations"] == {"summary": "s"}
    assert "endsAt" in former


def test_a_rules_labels_and_its_name_stand_in_the_alert_and_cannot_change_which_it_is() -> None:
    """Alertmanager's routes go by them: by team, or by the name of the rule."""
    told = notice(labels={"team": "data", "on-call": "europe", "2nd": "x", "run": "another"})
    labels = build_alert(replace(told, facts={**told.facts, "alert": "LossSpike"}), {"team": "training", "site": "a"})["labels"]
    assert labels.items() >= {"team": "data", "site": "a", "on_call": "europe", "_2nd": "x"}.items()
    assert (labels["run"], labels["rule"]) == ("gpt-7", "LossSpike")


def test_an_alertmanager_that_cannot_be_asked_is_told_all_the_same() -> None:
    with HttpServer() as server:
        server.replies = [Reply(500), Reply(200)]
        assert alertmanager(server.url).deliver(notice()) == "alert posted"


def test_a_routes_labels_cannot_make_two_incidents_one_and_a_message_ends_by_itself() -> None:
    assert build_alert(notice(), {"incident": "9", "run": "x"})["labels"]["incident"] == "4"
    message = build_alert(notice("message"), {})
    assert (message["labels"]["alertname"], message["endsAt"]) == ("SentinelMessage", "2026-11-18T11:11:40.250+00:00")


def test_slack_gets_plain_text_that_mentions_nobody() -> None:
    with HttpServer() as server:
        route = Route.model_validate({"slack": {"webhook": {"env": "URL"}}})
        hook = open_channel(route, None, {"URL": f"{server.url}/services/T0/B0/x"})
        assert hook.deliver(notice()) == "accepted (200)"
        got = server.next()
    assert got.path == "/services/T0/B0/x"
    header, section, links = got.json["blocks"]
    assert header["text"]["text"] == got.json["text"] == "PAGE (critical) gpt-7: spike since step 71"
    assert section["text"]["text"].startswith("```Spike: loss 8.6 over 2.2 &lt;!channel&gt; &amp; ")
    assert links["text"]["text"] == "<https://book.example/RUNBOOK.md#spike|runbook>"


def test_a_webhook_that_slack_has_deleted_is_given_up_with_what_to_do() -> None:
    with HttpServer() as server:
        server.replies = [Reply(404, b"no_service")]
        hook = open_channel(Route.model_validate({"slack": {"webhook": {"env": "URL"}}}), None, {"URL": server.url})
        with pytest.raises(GiveUp, match="Slack answered 404: no_service; the webhook or its channel was deleted; make"):
            hook.deliver(notice())


@pytest.mark.parametrize("text", ["x" * 16_000, "\n".join("y" * 90 for _ in range(170)), "", "\n\n\n", "``` & " * 2000])
def test_a_long_case_keeps_to_slacks_limits(text: str) -> None:
    blocks = build_message(notice(text=text, links={}, title="t" * 200))["blocks"]
    assert len(blocks) <= 6
    for block in blocks[1:]:
        inner = block["text"]["text"]
        assert 0 < len(inner) <= 3000
        assert "```" not in inner[3:-3]
    assert len(blocks[0]["text"]["text"]) <= 150


def test_a_webhook_is_signed_so_that_the_receiver_can_tell() -> None:
    with HttpServer() as server:
        signed = channel(webhook={"url": f"{server.url}/hook", "secret": {"env": "SIGN"}})
        signed.deliver(notice(key="page/4/1/trigger/schlüssel\r\nX-Evil: 1"))
        channel(webhook={"url": server.url}).deliver(notice())
        first, second = server.all()
    time = first.headers["X-Sentinel-Timestamp"]
    wanted = hmac.new(ENV["SIGN"].encode(), time.encode() + b"." + first.body, hashlib.sha256).hexdigest()
    assert first.headers["X-Sentinel-Signature-256"] == f"sha256={wanted}"
    assert first.headers["X-Sentinel-Key"] == "page/4/1/trigger/schl%C3%BCssel%0D%0AX-Evil%3A%201"
    assert "X-Evil" not in first.headers
    assert second.json == json.loads(json.dumps(notice().document()))
    assert "X-Sentinel-Signature-256" not in second.headers


def run_command(script: str, within_s: float = 20.0) -> str:
    return Command(CommandRoute(run=(sys.executable, "-c", script)), within_s).deliver(notice())


def test_a_command_reads_the_page_as_json(tmp_path: Path) -> None:
    place = tmp_path / "page.json"
    assert "took it" in run_command(f"import sys; open({str(place)!r}, 'w').write(sys.stdin.read())")
    assert json.loads(place.read_text()) == json.loads(json.dumps(notice().document()))


def test_a_commands_exit_code_is_its_answer() -> None:
    with pytest.raises(RetryLater, match="ended with 75: busy"):
        run_command("import sys; print('first'); print('busy\\x1b[31m'.strip()); sys.exit(75)")
    with pytest.raises(GiveUp, match=r"ended with 3$"):
        run_command("import sys; sys.exit(3)")
    with pytest.raises(GiveUp, match="killed by signal 9"):
        run_command("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(GiveUp, match="no-such-program cannot be started: No such file"):
        Command(CommandRoute(run=("no-such-program",))).deliver(notice())
    with pytest.raises(GiveUp, match="Permission denied"):
        Command(CommandRoute(run=("/etc/passwd",))).deliver(notice())


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """What it started holds the other end of a pipe: it closes when, and only when, that is gone."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    words = ("sh", "-c", 'exec 3>"$0"; echo x >&3; sleep 600 & sleep 600', str(fifo))
    with pytest.raises(RetryLater, match="still running after 1 s and was ended"):
        Command(CommandRoute(run=words), 1).deliver(notice())
    os.set_blocking(reader, True)
    assert os.read(reader, 9) == b"x\n", "it had begun"
    assert os.read(reader, 9) == b"", "nobody of it is left"
    os.close(reader)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_command_is_started_while_a_file_that_is_open_here_hangs(tmp_path: Path) -> None:
    """A started program closes the files of whoever started it, and waits with them."""
    command = Command(CommandRoute(run=("true",)), 20)
    with HangingFolder(tmp_path / "nfs", {"sentinel.db": b""}) as folder, open(folder.path / "sentinel.db", "rb"):
        folder.hang()
        try:
            assert Patience("true").within(20, lambda: command.deliver(notice())) == "true took it"
        finally:
            folder.go_on()


def test_a_starter_that_was_killed_is_started_anew() -> None:
    command = Command(CommandRoute(run=("true",)), 20)
    assert SHARED._process is not None
    SHARED._process.kill()
    SHARED._process.wait()
    assert command.deliver(notice()) == "true took it"


def test_a_command_that_writes_without_end_fills_nothing() -> None:
    assert "took it" in run_command("import sys\nfor _ in range(3000): sys.stdout.write('x' * 10000)")


def test_a_page_is_printed_and_kept_and_the_file_of_a_second_delivery_is_the_same(tmp_path: Path) -> None:
    out = io.StringIO()
    terminal = Terminal(tmp_path, out)
    assert terminal.deliver(notice()) == "printed"
    kept = tmp_path / "incidents" / "0004" / "page.json"
    first = kept.read_bytes()
    terminal.deliver(notice())
    assert kept.read_bytes() == first
    assert json.loads(first)["title"] == "gpt-7: spike since step 71"
    assert out.getvalue().count(f"PAGE (critical) gpt-7: spike since step 71\n{TEXT}") == 2
    terminal.deliver(notice("acknowledge"))
    assert out.getvalue().endswith("\nSeen by ada@desk: gpt-7: spike since step 71\n")


def test_without_apprise_its_route_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)  # as if it were not installed
    with pytest.raises(GiveUp, match="pip install"):
        channel(apprise={"urls": {"env": "KEY"}}).deliver(notice())


def test_apprise_is_given_each_address_and_its_silence_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of its four words, so that this runs where it is not installed."""
    told: list[dict[str, Any]] = []
    answers = [True, False]

    class Apprise:
        def add(self, url: str) -> bool:
            return url.startswith("json://")

        def notify(self, **words: Any) -> bool:
            told.append(words)
            return answers.pop(0)

    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=Apprise))
    route = Route.model_validate({"apprise": {"urls": {"env": "URLS"}}})
    box = open_channel(route, None, {"URLS": "json://one json://two"})
    assert box.deliver(notice()) == "sent to 2"
    with pytest.raises(RetryLater, match="does not say why"):
        box.deliver(notice("resolve"))
    with pytest.raises(GiveUp, match="does not know 1 of 2"):
        open_channel(route, None, {"URLS": "json://one nonsense"}).deliver(notice())
    assert [words["notify_type"] for words in told] == ["failure", "success"]


def test_the_real_apprise_delivers() -> None:
    pytest.importorskip("apprise", reason="apprise is an extra")
    with HttpServer() as server:
        route = Route.model_validate({"apprise": {"urls": {"env": "URLS"}}})
        said = open_channel(route, None, {"URLS": f"json://{host_of(server.url)}/hook"}).deliver(notice())
        got: Received = server.next()
    assert said == "sent to 1"
    assert "spike since step 71" in got.json["title"]
