"""Pages in a real Alertmanager: one alert for one incident, kept alive, silenced, resolved, and passed on to a PagerDuty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel.channels.alertmanager import Alertmanager, AlertmanagerRoute
from sentinel.channels.alertmanager_keeper import AlertmanagerKeeper
from sentinel.channels.notice import Notice
from sentinel.channels.opening import open_channel
from sentinel.channels.registry import Route
from sentinel.channels.secrets import Vault
from sentinel.clock import SystemClock
from sentinel.model.actions import SendPage, Stage
from sentinel.paging.courier import Courier
from tests.integration.alertmanager_kit import RealAlertmanager, alertmanager, needs_alertmanager
from tests.integration.supervised import wait_for
from tests.unit.channels.notices import notice

pytestmark = needs_alertmanager
RUN = 'gpt "7" \\ x'  # a name that a matcher must quote


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAlertmanager]:
    with alertmanager(tmp_path_factory.mktemp("alertmanager")) as found:
        yield found


def at_once(stage: Stage, incident: int, **changes: object) -> Notice:
    told = notice(stage, incident=incident, run=RUN, at_s=SystemClock().wall_s())
    return replace(told, dedup_key=f"sentinel/x/{incident}", **changes)  # type: ignore[arg-type]


def of(real: RealAlertmanager, incident: int) -> list[dict[str, object]]:
    return [alert for alert in real.alerts() if alert["labels"]["incident"] == str(incident)]


def test_one_incident_is_one_alert_from_its_trigger_to_its_end(real: RealAlertmanager, tmp_path: Path) -> None:
    route = Route.model_validate({"alertmanager": {"url": real.url, "labels": {"team": "training"}}})
    sent: list[Notice] = []

    def build(page: SendPage) -> Notice:
        sent.append(at_once(page.stage, 1, severity=page.severity))
        return sent[-1]

    courier = Courier(tmp_path, RUN, {"alertmanager": open_channel(route, tmp_path)}, build)

    def page(stage: Stage, severity: str = "critical") -> str:
        key = f"page/1/0/{stage}/alertmanager/{severity}"
        return courier.send(SendPage(key, 1, severity, "t", "x", stage, "alertmanager"))  # type: ignore[arg-type]

    page("trigger", "warning")
    page("trigger", "warning")
    (alert,) = of(real, 1)
    assert alert["labels"]["severity"] == "warning"  # type: ignore[index]
    first = wait_for("notification", lambda: None if real.hook.received.empty() else real.hook.next()).json
    assert (first["status"], len(first["alerts"])) == ("firing", 1)
    assert page("update") == "alert posted; 1 with other labels ended"
    (alert,) = of(real, 1)
    assert (alert["labels"]["severity"], alert["labels"]["team"]) == ("critical", "training")  # type: ignore[index]
    page("acknowledge")
    assert of(real, 1)[0]["annotations"]["acknowledged_by"] == "ada@desk"  # type: ignore[index]
    page("resolve")
    wait_for("end of the alert", lambda: not of(real, 1))
    told: list[dict[str, object]] = []
    wait_for("resolved", lambda: told.extend(got.json for got in real.hook.all()) or any(t["status"] == "resolved" for t in told))
    (last,) = [alert for alert in told[-1]["alerts"] if alert["labels"]["severity"] == "critical"]  # type: ignore[attr-defined]
    assert last["annotations"]["resolved_by"] == "ada@desk"
    assert last["annotations"]["description"] == sent[0].text


def test_a_silence_is_an_acknowledgement_by_whoever_made_it(real: RealAlertmanager) -> None:
    vault, seen, open_now = Vault({}), [], [at_once("trigger", 2), at_once("trigger", 3)]
    channel = Alertmanager(AlertmanagerRoute(url=real.url), vault)
    keeper = AlertmanagerKeeper(channel, vault, lambda: open_now, lambda *who: seen.append(who))
    keeper.turn()
    assert seen == []
    real.silence("ada", 'incident="2"', "alertname=SentinelIncident")

    def look() -> bool:
        keeper.turn()
        return bool(seen)

    wait_for("silence", look)
    keeper.turn()
    assert seen == [(2, "silence by ada in Alertmanager")]


def test_an_alert_that_is_posted_again_stays_and_the_last_post_stands_for_a_week(real: RealAlertmanager) -> None:
    """What Alertmanager does with an alert that is not posted again: its end lies five minutes ahead."""
    vault, open_now = Vault({}), [at_once("trigger", 4)]
    keeper = AlertmanagerKeeper(
        Alertmanager(AlertmanagerRoute(url=real.url), vault), vault, lambda: open_now, lambda *who: None
    )
    keeper.turn()
    first = ends_in_s(real, 4)
    assert 200 < first <= 301
    keeper.last_post()
    assert 6.9 * 86400 < ends_in_s(real, 4) <= 7 * 86400
    open_now[:] = [at_once("trigger", 4)]
    Alertmanager(AlertmanagerRoute(url=real.url), vault).deliver(at_once("resolve", 4))
    wait_for("end of the alert", lambda: not of(real, 4))


def test_a_resolve_ends_an_alert_that_was_to_stand_for_a_week_though_the_clocks_differ(real: RealAlertmanager) -> None:
    """An end still to come by Alertmanager's clock would give way to the later one, and the alert would stand the week."""
    vault, channel = Vault({}), Alertmanager(AlertmanagerRoute(url=real.url), Vault({}))
    AlertmanagerKeeper(channel, vault, lambda: [at_once("trigger", 8)], lambda *who: None).last_post()
    assert ends_in_s(real, 8) > 6.9 * 86400
    ahead = at_once("resolve", 8)
    channel.deliver(replace(ahead, at_s=ahead.at_s + 30.0))
    wait_for("end of the alert", lambda: not of(real, 8))


def ends_in_s(real: RealAlertmanager, incident: int) -> float:
    (alert,) = of(real, incident)
    ends = datetime.fromisoformat(str(alert["endsAt"]).replace("Z", "+00:00"))
    return (ends - datetime.now(UTC)).total_seconds()


def test_what_reaches_a_pagerduty_behind_it_is_one_incident_with_its_end(real: RealAlertmanager) -> None:
    real.pagerduty.all()
    channel = Alertmanager(AlertmanagerRoute(url=real.url), Vault({}))
    channel.deliver(at_once("trigger", 5))
    channel.deliver(at_once("update", 5, text="more of the case"))
    events = [wait_for("event", lambda: next_of(real, "5"))]
    channel.deliver(at_once("resolve", 5))
    events.append(wait_for("event", lambda: next_of(real, "5", "resolve")))
    assert [event["event_action"] for event in events] == ["trigger", "resolve"]
    assert len({event["dedup_key"] for event in events}) == 1
    assert events[0]["routing_key"] == "local-key"


def next_of(real: RealAlertmanager, incident: str, action: str = "trigger") -> dict[str, object] | None:
    """An event of this incident, when it has come; other incidents' alerts are passed on as well."""
    for got in real.pagerduty.all():
        event: dict[str, object] = got.json
        if event["event_action"] == action and f" SentinelIncident {incident} " in str(event["payload"]):
            return event
    return None


def test_a_strange_answer_of_a_wrong_address_is_said(real: RealAlertmanager) -> None:
    """The address of another page of it: a person mistyped."""
    wrong = open_channel(Route.model_validate({"alertmanager": {"url": f"{real.url}/nowhere"}}), None)
    with pytest.raises(Exception, match=r"Alertmanager at 127\.0\.0\.1:\d+ answered 404"):
        wrong.deliver(at_once("trigger", 6))
