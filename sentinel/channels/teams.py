"""Microsoft Teams: an Adaptive Card a stage, posted to a workflow whose trigger is "When a Teams webhook request is received".
A card is never changed: an update is another card. (The connectors of Office 365 are retired.)

The workflow answers 202 when it has taken the request, and posts the card afterwards. An error of that second part is seen in its
run history only, not here: so a card stays well below the size that Teams takes.

Text is in TextRuns, which unlike TextBlocks render no Markdown. A mention needs an entry in `msteams.entities`; a card has none.
It asks for version 1.2 of Adaptive Cards, the first that has all of this.

https://support.microsoft.com/office/8ae491c7-0394-4861-ba59-055e33f75498 (how to create one)
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using (message, size, rate)
https://learn.microsoft.com/adaptive-cards/schema-explorer/text-run, …/container, …/action-open-url
https://github.com/MicrosoftDocs/msteams-docs/issues/11274 (a body of 24453 bytes became a message of 28897; 28672 are taken)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from sentinel.channels.http_call import HttpRequest, send
from sentinel.channels.notice import TITLE_CHARS_MAX, Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import CALLS, cut, headline, web_links
from sentinel.client.strict_json import dumps
from sentinel.policy.schema_paging import RouteSettings, Secret

MESSAGE_BYTES_MAX = 28_672 - 4_672  # what Teams takes, less what a workflow was seen to add (4444 bytes) and some
LINKS_MAX = 6  # Teams shows no more buttons
LINK_BYTES_MAX = 1000  # a longer one stands in the text only: six of them and a title always fit
LINE_CHARS_MAX = 1000  # the text is cut between two lines, unless they are longer
REST = "… (the report has the rest)"
WEBHOOK_VARIABLE = "SENTINEL_TEAMS_WEBHOOK"  # with --page
CALL_STYLES = {"critical": "attention", "warning": "warning", "info": "accent"}
LATER_STYLES = {"acknowledge": "accent", "resolve": "good", "message": "good"}
_COPY = "copy its URL from the Workflows app in Teams again"
_DENIED = f"the URL's signature (sig=) is wrong, or the trigger is not open to anyone who has the URL; {_COPY}"
_GONE = f"the workflow was deleted or turned off, or its URL has changed; {_COPY}"
REMEDIES = {
    400: 'the workflow cannot read the card; it must begin with "When a Teams webhook request is received"',
    401: _DENIED,
    403: _DENIED,
    404: _GONE,
    410: _GONE,
}


class TeamsRoute(RouteSettings):
    """Microsoft Teams, by a workflow that takes webhook requests."""

    webhook: Secret
    """Its URL, which holds its signature and is a secret."""


class Teams:
    def __init__(self, settings: TeamsRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        url = self._vault.read(self._settings.webhook)
        body = dumps(build_message(notice)).encode()
        answer = send(HttpRequest("Teams", url, body, scrub=self._vault.scrub, remedies=REMEDIES))
        return f"accepted ({answer.status})"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page teams`"""
    del environ
    if value:
        raise ValueError(f"takes no value here; the address is a secret: set {WEBHOOK_VARIABLE} and write --page teams")
    return {"webhook": Secret(env=WEBHOOK_VARIABLE)}


def build_message(notice: Notice) -> dict[str, Any]:
    """What is posted: the whole case, or as much of it as Teams takes."""
    whole = _message(notice, notice.text)
    if message_bytes(whole) <= MESSAGE_BYTES_MAX:
        return whole
    sizes = range(len(notice.text))
    too_many = bisect_right(sizes, MESSAGE_BYTES_MAX, key=lambda chars: message_bytes(_beginning(notice, chars)))
    line_end = notice.text.rfind("\n", max(0, too_many - LINE_CHARS_MAX), too_many)
    return _beginning(notice, line_end if line_end >= 0 else too_many - 1)


def message_bytes(message: Mapping[str, Any]) -> int:
    """Of the message as a text within JSON, the most that it can become on its way: each quote and backslash is written twice."""
    return len(dumps(dumps(message)))


def _beginning(notice: Notice, chars: int) -> dict[str, Any]:
    return _message(notice, f"{notice.text[:chars]}\n{REST}")


def _message(notice: Notice, text: str) -> dict[str, Any]:
    style = CALL_STYLES[notice.severity] if notice.stage in CALLS else LATER_STYLES[notice.stage]
    title = _block(cut(headline(notice), TITLE_CHARS_MAX), weight="Bolder")
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "msteams": {"width": "Full"},
        "body": [{"type": "Container", "bleed": True, "style": style, "items": [title]}, _block(text, fontType="Monospace")],
        "actions": [{"type": "Action.OpenUrl", "title": name, "url": url} for name, url in _links(notice)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _block(text: str, **look: str) -> dict[str, Any]:
    """Text as it is. The one thing that a TextRun would rewrite is a date, {{DATE(…)}} or {{TIME(…)}}, which a space prevents."""
    plain = re.sub(r"\{(?=\{)", "{ ", text)
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": plain or " ", **look}]}


def _links(notice: Notice) -> list[tuple[str, str]]:
    short = [(name, url) for name, url in web_links(notice).items() if len(dumps(url)) <= LINK_BYTES_MAX]
    return short[:LINKS_MAX]
