"""PagerDuty's Events API v2, or whatever speaks it: trigger, acknowledge and resolve of one incident under one `dedup_key`.

An update is a trigger with the same key: the alert is changed and nobody is called again. The API has no messages; an incident
that needs nobody is not sent. https://developer.pagerduty.com/docs/send-alert-event
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sentinel.channels.http_call import HttpRequest, check_url, given_url, host_of, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import cut, one_line, short_key, web_links
from sentinel.client.strict_json import dumps
from sentinel.policy.schema_paging import RouteSettings, Secret, Url

SUMMARY_CHARS_MAX = 1024
KEY_CHARS_MAX = 255
KEY_VARIABLE = "SENTINEL_PAGERDUTY_KEY"  # with --page
ACTIONS = {"trigger": "trigger", "update": "trigger", "acknowledge": "acknowledge", "resolve": "resolve"}


class PagerDutyRoute(RouteSettings):
    """PagerDuty's Events API v2, or whatever speaks it."""

    routing_key: Secret
    """The integration key."""
    url: Url = "https://events.pagerduty.com/v2/enqueue"
    """Where events go."""


class PagerDuty:
    def __init__(self, settings: PagerDutyRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        if notice.stage not in ACTIONS:
            return f"not sent: PagerDuty takes no {notice.stage}"
        event = build_event(notice, self._vault.read(self._settings.routing_key))
        what = f"PagerDuty at {host_of(self._settings.url)}"
        answer = send(HttpRequest(what, self._settings.url, dumps(event).encode(), scrub=self._vault.scrub))
        return f"{event['event_action']} accepted ({answer.status})"


def problems(settings: PagerDutyRoute) -> Iterator[str]:
    if wrong := check_url(settings.url):
        yield f"its url {wrong}"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page pagerduty`, or `pagerduty=URL` for whatever else speaks its API."""
    del environ
    return {"routing_key": Secret(env=KEY_VARIABLE)} | ({"url": given_url(value, "pagerduty")} if value else {})


def build_event(notice: Notice, routing_key: str) -> dict[str, Any]:
    """What is posted."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": ACTIONS[notice.stage],
        "dedup_key": short_key(notice.dedup_key, KEY_CHARS_MAX),
        "client": "sentinel",
        "links": [{"href": url, "text": name} for name, url in web_links(notice).items()],
        "payload": {
            "summary": cut(one_line(notice.title), SUMMARY_CHARS_MAX),
            "severity": notice.severity,
            "source": notice.facts.get("host") or notice.run,
            "timestamp": datetime.fromtimestamp(notice.at_s, UTC).isoformat(timespec="milliseconds"),
            "component": notice.run,
            "group": "training",
            "class": notice.facts.get("kind", "incident"),
            "custom_details": _details(notice),
        },
    }
    first = next(iter(web_links(notice).values()), None)
    return event if first is None else {**event, "client_url": first}


def _details(notice: Notice) -> dict[str, Any]:
    details: dict[str, Any] = {"case": notice.text, **notice.labels, **notice.facts}
    if notice.answers:
        details["answers"] = list(notice.answers)
    if notice.by:
        details["by"] = notice.by
    local = notice.links.keys() - web_links(notice).keys()
    return details | {f"{name} (only on the machine of sentinel)": notice.links[name] for name in sorted(local)}
