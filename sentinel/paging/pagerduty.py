"""PagerDuty's Events API v2, or whatever speaks it: trigger, acknowledge and resolve of one incident under one `dedup_key`.

An update is a trigger with the same key: the alert is changed and nobody is called again. The API has no messages; an incident
that needs nobody is not sent. https://developer.pagerduty.com/docs/send-alert-event
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sentinel.client.strict_json import dumps
from sentinel.paging.http_call import Request, host_of, send
from sentinel.paging.notice import Notice
from sentinel.paging.secrets import Vault
from sentinel.paging.wording import cut, one_line, short_key, web_links
from sentinel.policy.schema_paging import PagerDutyRoute

SUMMARY_CHARS_MAX = 1024
KEY_CHARS_MAX = 255
ACTIONS = {"trigger": "trigger", "update": "trigger", "acknowledge": "acknowledge", "resolve": "resolve"}


class PagerDuty:
    def __init__(self, settings: PagerDutyRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        if notice.stage not in ACTIONS:
            return f"not sent: PagerDuty takes no {notice.stage}"
        event = build_event(notice, self._vault.read(self._settings.routing_key))
        what = f"PagerDuty at {host_of(self._settings.url)}"
        answer = send(Request(what, self._settings.url, dumps(event).encode(), scrub=self._vault.scrub))
        return f"{event['event_action']} accepted ({answer.status})"


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
    said: dict[str, Any] = {"case": notice.text, **notice.facts}
    if notice.answers:
        said["answers"] = list(notice.answers)
    if notice.by:
        said["by"] = notice.by
    local = notice.links.keys() - web_links(notice).keys()
    return said | {f"{name} (only on the machine of sentinel)": notice.links[name] for name in sorted(local)}
