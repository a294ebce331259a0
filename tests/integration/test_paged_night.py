"""A night with real processes: a job that cannot start pages through a real Alertmanager and a receiver that speaks
PagerDuty's words, and a person answers, while sentinel lives and after it has ended. One incident stays one alert under one
key."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.alertmanager_kit import RealAlertmanager, alertmanager, needs_alertmanager
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for
from tests.loopback import HttpServer, Reply

pytestmark = needs_alertmanager
DIES = double(1, exit=3)
POLICY = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {{name: night}}
extends: demo
spec:
  playbooks:
    call:
      - page: {{severity: critical}}
        then: {then}
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAlertmanager]:
    with alertmanager(tmp_path_factory.mktemp("alertmanager")) as found:
        yield found


class Night:
    """A run whose pages go to the Alertmanager and to a receiver of PagerDuty's."""

    def __init__(self, folder: Path, name: str, real: RealAlertmanager, pagerduty: HttpServer, then: str) -> None:
        pagerduty.always = lambda got: Reply(202, b'{"status":"success"}')
        self.real, self.pagerduty, self.name = real, pagerduty, name
        self.events: list[dict[str, Any]] = []
        policy = folder / "policy.yaml"
        policy.write_text(POLICY.format(then=then))
        pages = ["--page", f"alertmanager={real.url}", "--page", f"pagerduty={pagerduty.url}/v2/enqueue"]
        pages += ["--listen", "127.0.0.1:0"]
        self.run = Supervised(folder / name, DIES, str(policy), pages).start()

    def actions(self) -> list[str]:
        self.events += [got.json for got in self.pagerduty.all()]
        return [event["event_action"] for event in self.events]

    def alerts(self) -> list[dict[str, Any]]:
        return [alert for alert in self.real.alerts() if alert["labels"]["run"] == self.name]

    def say(self, word: str) -> None:
        done = run_sentinel(word, "1", str(self.run.run_dir))
        assert done.returncode == 0, done.stdout + done.stderr

    def is_one_incident(self) -> bool:
        assert {event["dedup_key"] for event in self.events} == {f"sentinel/{self.name}/1"}
        assert {event["routing_key"] for event in self.events} == {"k" * 32}
        assert all("k" * 32 not in path.read_text(errors="replace") for path in self.run.run_dir.rglob("*") if path.is_file())
        return True


def test_a_silence_acknowledges_the_page_of_a_held_run_everywhere_and_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: RealAlertmanager
) -> None:
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", "k" * 32)
    with HttpServer() as pagerduty:
        night = Night(tmp_path, "held", real, pagerduty, "hold")
        wait_for("page", lambda: "trigger" in night.actions() and night.alerts())
        (alert,) = night.alerts()
        assert (alert["labels"]["kind"], alert["labels"]["severity"]) == ("broken_job", "critical")
        case = alert["annotations"]["description"]
        assert "sentinel ack 1" in case, "the whole case is there"
        (page,) = re.findall(r"page: (http://\S+)", night.run.log)
        began = int(night.run.facts()[0].at_s)
        assert f"page:    {page}#run=held&began={began} (on {socket.gethostname()} only; from elsewhere: ssh -L " in case
        assert "127.0.0.1" not in str([value for name, value in alert["annotations"].items() if name.endswith("_url")])
        real.silence("ada", 'run="held"')
        wait_for("acknowledgement", lambda: "acknowledge" in night.actions())
        assert night.run.incidents()[0]["acknowledged_by"] == "silence by ada in Alertmanager"
        night.say("resolve")
        wait_for("end", lambda: "resolve" in night.actions() and not night.alerts())
        assert night.actions() == ["trigger", "acknowledge", "resolve"]
        assert night.is_one_incident()
        assert night.run.child is not None
        night.run.child.terminate()
        night.run.wait()


def test_a_run_that_failed_keeps_its_alert_and_is_answered_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: RealAlertmanager
) -> None:
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", "k" * 32)
    with HttpServer() as pagerduty:
        night = Night(tmp_path, "failed", real, pagerduty, "stop_now")
        assert night.run.wait() == 1, night.run.log
        (alert,) = night.alerts()
        assert 6.9 < days_left(alert) <= 7
        night.say("ack")
        (alert,) = night.alerts()
        assert alert["annotations"]["acknowledged_by"]
        assert 6.9 < days_left(alert) <= 7, "answered, it stands as long"
        night.say("resolve")
        wait_for("end", lambda: not night.alerts())
        assert night.actions() == ["trigger", "acknowledge", "resolve"]
        assert night.is_one_incident()


def days_left(alert: dict[str, Any]) -> float:
    ends = datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00"))
    return (ends - datetime.now(UTC)).total_seconds() / 86400
