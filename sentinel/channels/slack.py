"""Slack: an incoming webhook, or an app's bot (`slack_bot`). The text is plain: nothing that a run wrote can mention a channel or
draw a link.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sentinel.channels.http_call import HttpRequest, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import cut, headline, web_links
from sentinel.client.strict_json import dumps
from sentinel.policy.schema_paging import RouteSettings, Secret, SlackChannel, SlackMembers, Url

HEADER_CHARS_MAX = 150  # Slack's limits: of a header, and of a section with room for what escaping adds
SECTION_CHARS_MAX = 2800
SECTIONS_MAX = 4
WEBHOOK_VARIABLE = "SENTINEL_SLACK_WEBHOOK"  # with --page
REMEDIES = {
    403: "the webhook was revoked, or the workspace forbids it to post; make a new one and put its address there",
    404: "the webhook or its channel was deleted; make a new one and put its address there",
    410: "its channel is archived; bring the channel back, or make a webhook for another",
}


class SlackRoute(RouteSettings):
    """Slack: an incoming webhook, or an app's bot, which can put a run into one thread and offer buttons."""

    webhook: Secret | None = None
    """URL of an incoming webhook, which is a secret. It knows no threads and no buttons."""
    token: Secret | None = None
    """The token of an app's bot (xoxb-…, with the scope chat:write)."""
    channel: SlackChannel | None = None
    """With token: id of the channel, as in C024BE91L. The bot must be in it."""
    signing_secret: Secret | None = None
    """With token: the app's signing secret. Messages then have buttons; Slack sends a press to /slack/actions of the page."""
    people: SlackMembers = ()
    """Ids of the members who may press a button, as in U012AB3CD. Without it everybody who sees the channel may."""
    url: Url = "https://slack.com/api/chat.postMessage"
    """Where a bot posts."""

    def misfit(self) -> tuple[str, str] | None:
        if (self.webhook is None) == (self.token is None):
            which = "neither webhook nor token" if self.token is None else "both webhook and token"
            return f"the route has {which}", "write webhook: {env: NAME}, or token: {env: NAME} and channel: C024BE91L"
        if (self.token is None) != (self.channel is None):
            return "token and channel belong together", "write token: {env: NAME} and channel: C024BE91L"
        if self.token is None and (self.signing_secret is not None or self.people):
            return "a webhook has no buttons", "buttons need token, channel and signing_secret"
        return None


class Slack:
    """By an incoming webhook."""

    def __init__(self, webhook: Secret, vault: Vault) -> None:
        self._webhook = webhook
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        url = self._vault.read(self._webhook)
        body = dumps(build_message(notice)).encode()
        answer = send(HttpRequest("Slack", url, body, scrub=self._vault.scrub, remedies=REMEDIES))
        return f"accepted ({answer.status})"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page slack`"""
    del environ
    if value:
        raise ValueError(f"takes no value here; the address is a secret: set {WEBHOOK_VARIABLE} and write --page slack")
    return {"webhook": Secret(env=WEBHOOK_VARIABLE)}


def build_message(notice: Notice) -> dict[str, Any]:
    """What is posted: `text` for notifications, `blocks` for the channel."""
    title = headline(notice)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER_CHARS_MAX), "emoji": False}}
    ]
    blocks += [_section(f"```{piece}```") for piece in _pieces(notice.text)]
    links = "  ".join(f"<{_escaped(url).replace('|', '%7C')}|{_escaped(name)}>" for name, url in web_links(notice).items())
    if links:
        blocks.append(_section(cut(links, SECTION_CHARS_MAX)))
    return {"text": _escaped(cut(title, SECTION_CHARS_MAX)), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _pieces(text: str) -> list[str]:
    """The text in sections that Slack takes, cut between lines where there are any."""
    lines = [line[i : i + 1000] for line in _escaped(text).split("\n") for i in range(0, max(len(line), 1), 1000)]
    pieces: list[str] = []
    for line in lines:
        if pieces and len(pieces[-1]) + len(line) < SECTION_CHARS_MAX:
            pieces[-1] += f"\n{line}"
        else:
            pieces.append(line)
    if len(pieces) > SECTIONS_MAX:
        pieces = [*pieces[:SECTIONS_MAX], "… (the report has the rest)"]
    return [re.sub(r"\A\n+|\n+\Z", "", piece) or " " for piece in pieces]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("```", "'''")
