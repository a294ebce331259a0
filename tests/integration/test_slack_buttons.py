"""A page answered in Slack, for real: a run whose repair waits for a person, a server that plays Slack, and the press of the very
button that it was sent."""

from __future__ import annotations

import json
import queue
import re
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sentinel.channels.slack_signature import sign
from tests.integration.supervised import Supervised, double, wait_for
from tests.loopback import HttpServer, Reply

SECRET = "0123456789abcdef0123456789abcdef"
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {{name: asks-in-slack}}
extends: demo
spec:
  playbooks:
    restart:
      - resume: {{from: newest}}
        approval: {{within: 10m, otherwise: deny}}
      - page: {{severity: critical}}
        then: stop_now
  paging:
    routes:
      - slack: {{token: {{env: T_SLACK}}, channel: C024BE91L, signing_secret: {{env: T_SIGN}}, url: "{url}"}}
"""


def buttons_of(message: Any) -> dict[str, Any]:
    found = [element for block in message["blocks"] if block["type"] == "actions" for element in block["elements"]]
    return {element["action_id"]: element for element in found}


def press(page: str, button: Any) -> int:
    payload = {"type": "block_actions", "user": {"id": "U0ADA0001", "username": "ada"}, "actions": [button]}
    body, timestamp = urlencode({"payload": json.dumps(payload)}).encode(), str(int(time.time()))
    headers = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": sign(SECRET, timestamp, body)}
    with urllib.request.urlopen(urllib.request.Request(f"{page}slack/actions", body, headers), timeout=30) as answer:
        status: int = answer.status
        return status


def test_a_rung_that_waits_is_approved_by_the_button_it_came_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_SLACK", "xoxb-1-of-the-tests")
    monkeypatch.setenv("T_SIGN", SECRET)
    said: list[Any] = []
    with HttpServer() as slack:
        slack.always = lambda _: Reply(body=b'{"ok": true, "ts": "1700000000.000001"}')
        policy = tmp_path / "mine.yaml"
        policy.write_text(POLICY.format(url=slack.url))

        def message(about: str) -> Any:
            def came() -> Any:
                try:
                    while True:
                        said.append(slack.received.get_nowait().json)
                except queue.Empty:
                    return next((one for one in said if re.search(about, json.dumps(one))), None)

            return wait_for(f"message about {about}", came)

        run = Supervised(tmp_path / "run", double(20_000, 0.01, kill=120), str(policy), ["--listen", "127.0.0.1:0"]).start()
        (page,) = wait_for("the address", lambda: re.findall(r"^page: (http://\S+/)", run.log, re.MULTILINE))
        buttons = buttons_of(message("sentinel_approve"))
        assert set(buttons) == {"sentinel_acknowledge", "sentinel_approve", "sentinel_deny"}
        assert press(page, buttons["sentinel_approve"]) == 200
        wait_for("the second attempt", lambda: run.last_step(2) > 120)
        answer = message("ada .U0ADA0001 in Slack.: approve incident 1: ")
        assert answer["thread_ts"] == "1700000000.000001", "one thread for the run"
        assert run.child is not None
        run.child.terminate()
        assert run.wait() == 130, run.log
    answered = [entry.fact for entry in run.facts() if type(entry.fact).__name__ == "RequestAnswered"]
    assert [(fact.by, fact.granted) for fact in answered] == [("ada (U0ADA0001 in Slack)", True)]  # type: ignore[attr-defined]
    for path in run.run_dir.rglob("*"):
        assert not path.is_file() or not re.search(rb"xoxb-1-of|0123456789abcdef0123", path.read_bytes()), path
