"""Prometheus Alertmanager, API v2: one alert for an incident, identified by its labels `alertname`, `run` and `incident`.

`rule` is the name of the rule's alert, and a rule's own labels (team, service) stand beside it: Alertmanager's routes go by them.
What else stands in the labels (kind, severity, the route's own) may change while the incident is open, and to Alertmanager
other labels are another alert: the old one is ended in the same post. An alert that is not posted again for five minutes is
resolved by Alertmanager itself; `alertmanager_keeper` posts it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from sentinel.channels.contract import AGAIN_S, TRY_S
from sentinel.channels.http_call import HttpRequest, check_url, given_url, host_of, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import web_links
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import GiveUp, RetryLater
from sentinel.policy.schema_fields import Text, written
from sentinel.policy.schema_paging import LabelName, RouteSettings, Secret, Url

ALERT, MESSAGE = "SentinelIncident", "SentinelMessage"
MESSAGE_S = 300.0  # how long a message stands: nothing resolves it
MAY_CHANGE = ("severity", "kind")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]", re.ASCII)
ALERTS_MAX = 1000  # of one run, looked at
LOOK_S = 5.0  # a look before a post must leave time for the post
SKEW_S = 60.0  # an end lies so far back: one that is still to come by Alertmanager's clock gives way to a later one told before


class AlertmanagerRoute(RouteSettings):
    """Prometheus Alertmanager, API v2. A silence counts as an acknowledgement."""

    url: Url
    """Its address, such as http://127.0.0.1:9093."""
    labels: dict[LabelName, Text] = written({})
    """Added to every alert, for its routing."""
    token: Secret | None = None
    """Sent as a bearer token."""


class Alertmanager:
    def __init__(self, settings: AlertmanagerRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault
        self._what = f"Alertmanager at {host_of(settings.url)}"
        self._posting = threading.Lock()

    def deliver(self, notice: Notice) -> str:
        alert = build_alert(notice, self._settings.labels)
        with self._alone():
            former = [ended(other, notice.at_s) for other in self._alerts_of(notice) if is_former(other, alert)]
            self._post([alert, *former])
        replaced = f"; {len(former)} with other labels ended" if former else ""
        return f"alert {'resolved' if notice.stage == 'resolve' else 'posted'}{replaced}"

    def keep(self, standing: Callable[[], Sequence[Notice]], until_s: float | None = None) -> None:
        """Post again what stands, as it stands. `until_s`: for the last time; it is to stand until then.

        `standing` is asked here, while nothing else is posted: an alert resolved meanwhile must not be posted as firing.
        """
        with self._alone():
            alerts = [build_alert(notice, self._settings.labels) for notice in standing()]
            if until_s is not None:
                alerts = [{**alert, "endsAt": timestamp(until_s)} for alert in alerts]
            if alerts:
                self._post(alerts)

    def silences_of(self, run: str) -> dict[int, tuple[str, str]]:
        """Incident → id of a silence over its alert, and who made it."""
        found: dict[int, tuple[str, str]] = {}
        for alert in self._alerts({"alertname": ALERT, "run": run}):
            silences = alert.get("status", {}).get("silencedBy") or []
            incident = str(alert["labels"].get("incident", ""))
            if silences and incident.isdecimal():
                silence = str(silences[0])
                found[int(incident)] = (silence, self._author(silence))
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._posting.acquire(timeout=TRY_S):
            raise RetryLater(f"{self._what}: the post before this one still hangs", AGAIN_S)
        try:
            yield
        finally:
            self._posting.release()

    def _post(self, alerts: list[dict[str, Any]]) -> None:
        self._call("/api/v2/alerts", dumps(alerts).encode())

    def _author(self, silence: str) -> str:
        """Who made it; empty where it does not say."""
        raw = self._call(f"/api/v2/silence/{quote(silence, safe='')}")
        return str(raw.get("createdBy", "")) if isinstance(raw, dict) else ""

    def _alerts_of(self, notice: Notice) -> list[dict[str, Any]]:
        """The alerts that now stand for this incident. That it cannot be asked keeps no page from being sent."""
        if notice.stage == "message":
            return []
        try:
            return self._alerts({"alertname": ALERT, "run": notice.run, "incident": str(notice.incident)})
        except (RetryLater, GiveUp):
            return []

    def _alerts(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        query = urlencode([("filter", f'{name}="{escaped(value)}"') for name, value in labels.items()])
        raw = self._call(f"/api/v2/alerts?{query}")
        found = raw[:ALERTS_MAX] if isinstance(raw, list) else []
        return [alert for alert in found if isinstance(alert, dict) and isinstance(alert.get("labels"), dict)]

    def _call(self, path: str, body: bytes | None = None) -> Any:
        """Post the body, or get what is there. Raises RetryLater, GiveUp."""
        headers = {}
        if self._settings.token is not None:
            headers["Authorization"] = f"Bearer {self._vault.read(self._settings.token)}"
        url = self._settings.url.rstrip("/") + path
        if body is not None:
            send(HttpRequest(self._what, url, body, headers, scrub=self._vault.scrub))
            return None
        answer = send(HttpRequest(self._what, url, None, headers, "GET", LOOK_S, self._vault.scrub))
        try:
            return loads(answer.body)
        except ValueError:
            raise RetryLater(f"{self._what}: its answer is not JSON", AGAIN_S) from None


def problems(settings: AlertmanagerRoute) -> Iterator[str]:
    if wrong := check_url(settings.url):
        yield f"its url {wrong}"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page alertmanager=URL`"""
    del environ
    return {"url": given_url(value, "alertmanager")}


def build_alert(notice: Notice, labels: Mapping[str, str]) -> dict[str, Any]:
    """What is posted. `labels`: the route's own, and a rule's come before them; neither changes what tells the incident."""
    is_message = notice.stage == "message"
    ours = {
        "alertname": MESSAGE if is_message else ALERT,
        "run": notice.run,
        "incident": str(notice.incident),
        "severity": notice.severity,
        "kind": notice.facts.get("kind", ""),
        "rule": notice.facts.get("alert", ""),
    }
    of_rule = {label_name(name): value for name, value in notice.labels.items()}
    annotations = {
        "summary": notice.title,
        "description": notice.text,
        "answers": "\n".join(notice.answers),
        "acknowledged_by": notice.by if notice.stage == "acknowledge" else "",
        "resolved_by": notice.by if notice.stage == "resolve" else "",
        **{f"{name}_url": url for name, url in web_links(notice).items()},
    }
    alert: dict[str, Any] = {
        "labels": {name: value for name, value in {**labels, **of_rule, **ours}.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": timestamp(notice.at_s),
    }
    if notice.stage == "resolve":
        alert |= _over(notice.at_s)
    elif is_message:
        alert["endsAt"] = timestamp(notice.at_s + MESSAGE_S)
    first = next(iter(web_links(notice).values()), None)
    return alert if first is None else {**alert, "generatorURL": first}


def label_name(name: str) -> str:
    """As Alertmanager takes it: letters, digits and `_`, and no digit first."""
    legal = _NOT_IN_NAMES.sub("_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal


def is_former(other: Mapping[str, Any], alert: Mapping[str, Any]) -> bool:
    """The alert of the same incident on the same route, from when its severity was another."""
    labels, new = other["labels"], alert["labels"]
    same = {name: new[name] for name in new if name not in MAY_CHANGE}
    return labels != new and {name: labels[name] for name in labels if name not in MAY_CHANGE} == same


def ended(alert: Mapping[str, Any], at_s: float) -> dict[str, Any]:
    """An alert as Alertmanager told it, to be resolved; its annotations with it, or its last message would be empty."""
    annotations = alert.get("annotations") or {}
    return {"labels": alert["labels"], "annotations": annotations, **_over(at_s)}


def _over(at_s: float) -> dict[str, str]:
    """It began no later than it ended, or the post is refused; Alertmanager keeps the earlier beginning it knows."""
    return {"startsAt": timestamp(at_s - SKEW_S), "endsAt": timestamp(at_s - SKEW_S)}


def timestamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")


def escaped(value: str) -> str:
    """In the quotes of a matcher."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
